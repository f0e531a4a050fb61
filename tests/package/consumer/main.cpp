// A program outside Luminal's tree: it has the installed package and nothing else.
#include <luminal/luminal.h>

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  using namespace luminal;
  Graph cx;
  const GraphTensor a = cx.tensor({2, 2}).set({{1, 2}, {3, 4}});
  GraphTensor product = a.matmul(a).retrieve();
  cx.execute();

  const std::string path = std::string(argv[1]) + "/product.safetensors";
  write_safetensors(path, {{"product", product.data()}}, {{"version", std::string(version())}});
  const TensorData read = SafetensorsFile(path).read("product");
  const auto values = read.as<float>();
  const std::vector<float> expected{7, 10, 15, 22};
  if (!std::equal(values.begin(), values.end(), expected.begin(), expected.end())) return 1;
  std::cout << "luminal " << version() << " works: product " << product.to_string() << '\n';
  return 0;
}
