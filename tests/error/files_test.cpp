#include "error/mistake.h"
#include "support/environment.h"

// Mistakes with files, folders and data sets.
namespace luminal::error_test {
namespace {

TEST(FileMistakes, Weights) {
  const test::WorkingFolder folder;
  write_safetensors("model.safetensors", {{"layer.weight", TensorData(Dtype::F32, {2, 2})}});
  {
    std::ofstream("notes.txt") << "these are no weights, and the text is long enough for a header";
  }
  {
    std::ofstream("empty.safetensors");
  }
  expect_told({
      {"a file that is not there", [] { SafetensorsFile("modle.safetensors"); },
       "[safetensors] cannot open 'modle.safetensors': No such file or directory"},
      {"a folder", [] { SafetensorsFile("."); }, "[safetensors] '.' is not a regular file"},
      {"a text", [] { SafetensorsFile("notes.txt"); },
       "[safetensors] 'notes.txt' starts with a header length of 8241904413164529780 bytes, more than the "
       "100000000 allowed; this is not a safetensors file"},
      {"an empty file", [] { SafetensorsFile("empty.safetensors"); },
       "[safetensors] 'empty.safetensors' has 0 bytes, but a safetensors file has at least 10; the file is "
       "truncated or of another format"},
      {"a tensor misspelt", [] { (void)SafetensorsFile("model.safetensors").read("layer.wieght"); },
       "[safetensors] 'model.safetensors' has no tensor 'layer.wieght', but 1 others; did you mean "
       "'layer.weight'?"},
      {"a folder that is not there", [] { write_safetensors("nowhere/m.safetensors", {}); },
       "[write] cannot create a file in 'nowhere': No such file or directory; choose another place"},
      {"bytes that do not make the sizes",
       [] {
         TensorData data(Dtype::F32, {4});
         data.dims = {5};
         write_safetensors("m.safetensors", {{"w", data}});
       },
       "[safetensors] tensor 'w' of f32[5] takes 20 bytes, 16 were given"},
  });
}

TEST(FileMistakes, Tables) {
  const test::WorkingFolder folder;
  {
    std::ofstream("houses.csv") << "rooms,area\n3,70\nfour,90\n";
  }
  {
    std::ofstream("ragged.csv") << "rooms,area\n3,70\n4\n";
  }
  expect_told({
      {"a file that is not there", [] { (void)read_csv("house.csv"); },
       "[read] cannot open 'house.csv': No such file or directory"},
      {"a column misspelt", [] { (void)read_csv("houses.csv").numbers({"aera"}); },
       "[csv] 'houses.csv': unknown column 'aera'; did you mean 'area'?"},
      {"a field that is no number", [] { (void)read_csv("houses.csv").numbers({"rooms"}); },
       "[csv] 'houses.csv', line 3, column 'rooms': 'four' is not a number; fix it or leave the column out"},
      {"a row that is too short", [] { (void)read_csv("ragged.csv"); },
       "[csv] 'ragged.csv', line 3: 1 fields, but the first line has 2; give every row the same number"},
      {"no array", [] { (void)read_npy("houses.csv"); },
       "[npy] 'houses.csv': this is not an .npy file; give a file that numpy.save wrote"},
      {"no archive", [] { (void)read_npz("houses.csv"); },
       "[npz] 'houses.csv': the end of the zip archive is missing; the file is truncated or of another "
       "format"},
      {"no digits", [] { (void)data::load_mnist(".", data::Split::Train); },
       "[data] '.' has none of train-images-idx3-ubyte.gz, train-images-idx3-ubyte; give the folder with the "
       "MNIST files"},
      {"no texts", [] { (void)data::load_text("."); },
       "[data] '.' holds no .txt or .md file; give a file, or a folder with some"},
  });
}

TEST(FileMistakes, Loaders) {
  expect_told({
      {"examples of other counts",
       [] { data::TensorSource({TensorData(Dtype::F32, {4, 2}), TensorData(Dtype::F32, {5})}); },
       "[data] tensor 1 has dims [5] and tensor 0 [4, 2]; the first dim counts the examples of all"},
      {"no examples", [] { data::TensorSource({}); }, "[data] no tensors are given; give at least one"},
      {"batches of 0",
       [] {
         const data::TensorSource source({TensorData(Dtype::F32, {4, 2})});
         const data::Loader loader(source, {.batch = 0});
       },
       "[data] the batch size is 0; give 1 or more"},
      {"an example that is not there",
       [] {
         const data::TensorSource source({TensorData(Dtype::F32, {4, 2})});
         const data::Subset subset(source, {0, 4});
       },
       "[data] no example 4; give 0 to 3"},
      {"a text that is too short", [] { data::TextSource("short", 16, 16); },
       "[data] the text has 5 bytes and a window takes 17; give more text or shorter windows"},
  });
}

TEST(FileMistakes, Checkpoints) {
  const test::WorkingFolder folder;
  {
    std::ofstream("file") << "no folder";
  }
  expect_told({
      {"a file where the folder should be", [] { training::CheckpointManager("file"); },
       "[checkpoint] cannot create the folder 'file': Not a directory; choose another"},
      {"nothing tracked", [] { (void)training::CheckpointManager("runs").save(1); },
       "[checkpoint] nothing is tracked; call track with the model and the optimizer first"},
      {"a checkpoint that is not there",
       [] {
         Graph cx;
         training::CheckpointManager manager("runs");
         manager.track("model", nn::Linear(cx, 2, 2));
         manager.load("runs/none.safetensors");
       },
       "[safetensors] cannot open 'runs/none.safetensors': No such file or directory"},
      {"a checkpoint of another model",
       [] {
         Graph cx;
         {
           training::CheckpointManager manager("runs");
           manager.track("model", nn::Linear(cx, 2, 2));
           manager.save(1);
         }
         training::CheckpointManager manager("runs");
         manager.track("model", nn::Linear(cx, 2, 3));
         manager.resume();
       },
       "[checkpoint] 'runs/step-000000000001.safetensors' belongs to another model: 'model.bias' is f32[2] "
       "there and f32[3] here; build the model as it was, or use another folder"},
      {"tuning that is not there",
       [] {
         const test::EnvironmentVariable cache("LUMINAL_CACHE", "cache");
         (void)import_tuning("tuned.db");
       },
       "[cache] there is no file tuned.db"},
  });
}

}  // namespace
}  // namespace luminal::error_test
