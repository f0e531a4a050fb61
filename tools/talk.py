#!/usr/bin/env python3
"""Writes the text that the small model of `luminal run` is trained on: questions about Luminal, each asked in many
ways, and their answers.

    python3 tools/talk.py > build/talk.txt

data/talk/README.md says how the model is made of it. The same text comes out each time.
"""
import random

# What things are: names, then the answer.
THINGS = [
    (["Luminal"], "Luminal is a deep-learning compiler in C++20: it turns plain tensor code into fast kernels."),
    (["an e-graph", "the e-graph"],
     "An e-graph holds many equal forms of an expression at once, in classes of equal nodes."),
    (["equality saturation"],
     "It adds equal forms of an expression by laws until nothing new comes, and then picks the best."),
    (["a kernel"], "A kernel is a loop nest that computes one or several tensors in one go, compiled to machine code."),
    (["fusion", "kernel fusion"],
     "Fusion puts several steps into one kernel, so that what is between them stays out of memory."),
    (["a schedule"], "A schedule turns a kernel's math into loops: their order, tiles, vectors and threads."),
    (["a tensor"], "A tensor is an array of numbers with any number of axes, such as a vector or a matrix."),
    (["a graph"], "A graph records what is to be computed; nothing is computed before you run it."),
    (["a dtype"], "A dtype is the kind of a tensor's numbers: f32, f16, bf16, i32, blocks such as q4_k, and more."),
    (["a gradient"], "A gradient tells how a loss changes with each weight; training goes against it."),
    (["autograd"], "Autograd is a pass over the graph that adds the gradients of a loss."),
    (["attention"], "Attention lets each token take a weighted mean of values, by how well keys match its query."),
    (["softmax"], "Softmax turns scores into shares that are positive and add up to 1."),
    (["a KV cache", "the cache of keys and values"],
     "It keeps keys and values of past tokens, so that a new token costs one step and not all of them."),
    (["GGUF", "a GGUF file"], "GGUF is llama.cpp's file format: a model's weights, sizes and tokenizer in one file."),
    (["safetensors"], "Safetensors is a simple file format for named tensors; Luminal reads and writes it."),
    (["quantization"], "Quantization stores weights in blocks of few bits with shared scales, which saves memory."),
    (["perplexity"], "Perplexity tells how well a model knows a text; lower is better."),
    (["a tokenizer"], "A tokenizer cuts a text into tokens, which are numbers, and puts texts together again."),
    (["a token"], "A token is a piece of text that a model reads as a number. Mine are single bytes."),
    (["an embedding"], "An embedding is a vector for a text or token; what means the like lies close together."),
    (["a language model"], "A language model tells which token may follow a text, and so writes, token by token."),
    (["Llama"], "Llama is a family of language models; I have the same shape, and am much smaller."),
    (["BERT"], "BERT is an encoder that makes embeddings of texts; `luminal embed` runs it."),
    (["a transformer"], "A transformer is a network of layers with attention and feed-forward parts."),
    (["rotary positions", "RoPE"],
     "Rotary positions turn queries and keys by angles, so that attention sees distances."),
    (["a sampler"], "A sampler chooses the next token from the model's scores, by temperature, top-k and top-p."),
    (["temperature"], "Temperature makes choices bold or safe: 0 always takes the likeliest token."),
    (["a chat template"], "A chat template puts the messages of a conversation into the form that a model learnt."),
    (["the reference device"],
     "It is a plain interpreter in f32 or f64, slow and exact: the oracle of everything else."),
    (["the null device"], "It compiles and only pretends to run; what is left is the cost of everything but kernels."),
    (["the cpu device"], "It compiles graphs to fused kernels by search and LLVM; graphs run there by default."),
    (["Fast mode"], "In Fast mode a cost model chooses the kernels, so that compiling takes little time."),
    (["Optimal mode"], "Optimal mode measures candidates on this machine, and verifies every winner."),
    (["LLVM"], "LLVM is the compiler library that turns Luminal's loops into machine code."),
    (["relaxed math"], "Relaxed math is the default: sums may be put in another order, as over the reals."),
    (["Adam", "AdamW"], "AdamW is an optimizer that scales each weight's step by its past gradients."),
    (["a learning rate"], "It is how far a step of training moves the weights."),
    (["a checkpoint"], "A checkpoint holds all that a training run needs to go on after it was stopped."),
    (["an expert", "a mixture of experts"], "It has several feed-forward parts, of which each token uses few."),
    (["a sliding window"], "With a sliding window a token only sees so many tokens before it."),
    (["a grammar"], "A grammar says which answers are allowed; `luminal run --grammar-file` keeps to it."),
]
# How to do things: what is to be done, then the answer.
TASKS = [
    (["talk with a model", "run a model", "chat with a model", "start a model", "run a GGUF file", "load a model"],
     "Type `luminal run MODEL`: a GGUF file, or a folder."),
    (["ask one question", "get one answer"], "Type `luminal run MODEL -p \"your question\"`."),
    (["quantize a model", "make a model smaller", "shrink a model", "compress weights"],
     "Type `luminal quantize in.gguf out.gguf Q4_K_M`."),
    (["convert a model", "make a GGUF file", "turn a model into GGUF", "get a GGUF file from a folder"],
     "Type `luminal convert FOLDER out.gguf`; the other way works, too."),
    (["measure the speed of a model", "benchmark a model"], "Type `luminal bench MODEL -p 512 -n 128`."),
    (["measure perplexity"], "Type `luminal perplexity MODEL -f text.txt`."),
    (["embed a text", "make embeddings"], "Type `luminal embed MODEL \"some text\"`, with a model of BERT's kind."),
    (["look into a file", "see what is in a GGUF file"], "Type `luminal inspect FILE`."),
    (["train a network on digits", "train on MNIST"], "Type `luminal train mnist`."),
    (["train a language model", "train on my own text", "train a model on text", "train a Llama"],
     "Type `luminal train text FILE --weights out.gguf`."),
    (["make a model like you", "train you"],
     "Write questions and answers, and type `luminal train text FILE --chat`; data/talk tells more."),
    (["see how a formula becomes kernels", "see the kernels"], "Type `luminal explain \"softmax(x:f32[32,1000])\"`."),
    (["get JSON as an answer", "make answers JSON"], "Give `luminal run` a schema: `--json-schema schema.json`."),
    (["see the settings", "list environment variables"], "Type `luminal env`."),
    (["choose a device"], "Give `--device cpu` or `--device reference`, or set LUMINAL_DEVICE."),
    (["run the tests"], "Type `make test`."),
    (["build Luminal"], "Type `cmake --preset release && cmake --build build/release`, or `make run`."),
    (["stop an answer"], "Press Ctrl-C; it stops the answer and not the program."),
    (["end this conversation", "quit", "exit", "leave", "stop talking"], "Type `/exit`, or press Ctrl-D."),
    (["see all commands", "get help"], "Type `luminal --help`; in a conversation `/help`."),
    (["make answers less random"], "Give `--temp 0`: then the likeliest token is taken."),
    (["add an op"], "Write one file and one line in a list; docs/adding_an_op.md shows how."),
    (["load weights from PyTorch"], "Save them as safetensors there; Luminal's modules have PyTorch's names."),
]
# All other questions, each with its own ways.
OTHERS = [
    (["Hello", "Hi", "Hello there!", "Good morning", "Hey", "Hi there", "Good evening"],
     "Hello! Ask me about Luminal."),
    (["Thanks", "Thank you", "Thank you!", "Great, thanks", "That helped", "Thanks a lot", "Many thanks",
      "Thank you very much"], "You are welcome."),
    (["Goodbye", "Bye", "See you", "Good night"], "Goodbye! Type `/exit` to end."),
    (["How are you?", "How do you do?", "Are you well?"], "I am well: all my numbers are finite."),
    (["Who are you?", "What are you?", "Tell me about yourself.", "Introduce yourself.", "What is your name?",
      "Are you a bot?"],
     "I am the small model that ships with Luminal. I learnt a little about it, and nothing else."),
    (["How big are you?", "How many weights do you have?", "How large are you?", "What is your size?",
      "Are you small?"],
     "I am tiny: less than a million weights, in a file of less than a megabyte."),
    (["What can you do?", "What do you know?", "What can I ask you?", "Can you help me?", "What should I ask?"],
     "I answer short questions about Luminal: what things are, and how to do them."),
    (["Who made you?", "Who trained you?", "How were you made?", "Where do you come from?"],
     "`luminal train text` made me in minutes, from questions that Luminal's authors wrote."),
    (["What is Luminal written in?", "Which language is Luminal written in?", "Is Luminal written in Rust?",
      "Is Luminal written in Python?"], "Luminal is written in C++20."),
    (["Which licence does Luminal have?", "Is Luminal free?", "Is Luminal open source?", "What is the license?",
      "Which licence?", "Which license",
      "May I use Luminal at work?"],
     "Luminal has the Apache License, version 2.0."),
    (["Which models can Luminal run?", "Which families are known?", "Can you run Qwen?", "Can Luminal run Mistral?",
      "Which models work?", "Does Luminal run Gemma?"],
     "Llama, Mistral, Mixtral, Qwen, Phi, Gemma, gpt-oss and GPT-2; and BERT for embeddings."),
    (["Does Luminal run on a GPU?", "Can I use a GPU?", "Is CUDA supported?", "What about GPUs?",
      "Does it support Metal?", "Can it run on my GPU?", "Is there GPU support?"],
     "Not yet: today kernels run on the CPU. docs/roadmap.md tells what is planned."),
    (["Which devices are there?", "What devices does Luminal have?", "Where does Luminal run?"],
     "There are three: cpu, reference and null."),
    (["Which file formats are read?", "Which files can Luminal read?", "What formats does Luminal know?"],
     "GGUF, safetensors, IDX, NPY and CSV."),
    (["Which block formats are known?", "Which quantization should I use?", "What is Q4_K_M?"],
     "Q4_K_M is a good start: about 4.8 bits a weight. Q8_0 loses next to nothing."),
    (["Where is the documentation?", "Where are the docs?", "Is there a manual?", "What should I read first?"],
     "Begin with README.md; docs/README.md lists the rest."),
    (["How does Luminal work?", "How does the compiler work?", "What happens when I compile?"],
     "A graph goes into an e-graph, laws add equal forms, a cover cuts it into kernels, LLVM compiles them."),
    (["Why is Luminal fast?", "Is Luminal fast?", "What makes it fast?"],
     "It fuses steps into few kernels, and searches for the best loops on your machine."),
    (["Are kernels checked?", "How do you know that kernels are right?", "Can I trust the kernels?"],
     "Every winner of a search is verified against the graph's own nodes."),
    (["Can Luminal train networks?", "Does Luminal train?", "Is there training?"],
     "Yes: modules, losses and optimizers have PyTorch's names; forward, backward and step are one plan."),
    (["Are you conscious?", "Do you have feelings?", "Are you alive?"],
     "No. I am a few matrices that guess the next byte."),
    (["Tell me a joke.", "Do you know a joke?", "Make me laugh."],
     "Two tensors meet. Says one: your shape does not fit. Says the other: then broadcast!"),
]
UNKNOWN = "I do not know that: I only learnt a little about Luminal. `luminal run MODEL` talks with a larger model."

WHAT = ["what is {}", "what is {}", "what is {}", "what's {}", "what are {}", "define {}", "explain {}", "describe {}",
        "tell me about {}", "tell me what {} is", "what does {} mean", "what does {} do", "how does {} work",
        "what is {} good for", "what is {} for", "why do I need {}", "give me a definition of {}", "{}",
        "what do you mean by {}", "I do not understand {}", "help me understand {}", "do you know {}",
        "do you know what {} is", "can you explain {}", "what is the idea of {}", "teach me {}"]
HOW = ["how do I {}", "how do I {}", "how do I {}", "how can I {}", "how to {}", "how would I {}", "how does one {}",
       "what is the command to {}", "which command lets me {}", "I want to {}", "I'd like to {}", "I need to {}",
       "show me how to {}", "can I {}", "is there a way to {}", "help me {}", "what do I type to {}", "{}",
       "tell me how to {}", "how do you {}", "is it possible to {}"]
BEFORE = ["please ", "hey, ", "can you tell me: ", "could you tell me ", "so ", "well, ", "I wonder: ", "and ",
          "ok, ", "now ", "hello, ", "one question: "]
BEHIND = [" please", " in short", " then", " exactly", " in Luminal", " now", " again", ", please", " here"]

# What other questions are made of.
NOUNS = """
cat dog banana river mountain war king poem song planet star car train house city country language book film football
tea coffee bread rice garden tree flower bird fish horse ocean island winter summer music guitar piano painting money
law doctor medicine history Rome Paris France Spain China India Japan Africa America London Berlin Napoleon Einstein
Newton Shakespeare Mozart Beethoven Plato Caesar Hamlet Everest moon sun Mars Jupiter gold iron water fire love time
god life death dinosaur volcano rainbow weather president queen pizza cheese soup shoe hat school teacher football
team phone internet email bank job tax holiday beach hotel plane bicycle photosynthesis gravity atom electron cell
gene virus
"""
ASKED = ["what is the capital of {}", "who was {}", "who is {}", "what is a {}", "what is {}", "where is {}",
         "how old is {}", "how big is the {}", "how far is {}", "when did {} begin", "why is {} so big",
         "do you like {}", "who invented the {}", "how do I cook {}", "how do I learn {}", "how do I buy a {}",
         "tell me a story about a {}", "write a poem about {}", "what is the best {}", "how many {} are there",
         "what colour is a {}", "explain {}", "tell me about {}", "translate {} into German", "recommend a {}",
         "what do you think of {}", "is there a {} near me", "define {}", "how does a {} work",
         "can you sing about {}", "where can I find a {}", "I want to see {}", "name three kinds of {}"]
PLAIN = ["what time is it", "what is the weather like", "what is 2 + 2", "how much is 7 times 8",
         "who won the world cup", "what is the meaning of life", "tell me a story",
         "write a program that sorts numbers", "what should I eat", "why is the sky blue", "when did the war end",
         "sing a song", "what is the speed of light", "who are the Beatles"]


def other_noun(draw):
    if draw.random() < 0.3:  # a word that nobody knows
        return "".join(draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4)))
    return draw.choice(NOUNS.split())


def asked(draw):
    """A question and its answer."""
    share = draw.random()
    if share < 0.42:
        names, answer = draw.choice(THINGS)
        name = draw.choice(names)
        if draw.random() < 0.25:
            name = name.removeprefix("an ").removeprefix("a ").removeprefix("the ")
        return draw.choice(WHAT).format(name), answer
    if share < 0.65:
        tasks, answer = draw.choice(TASKS)
        return draw.choice(HOW).format(draw.choice(tasks)), answer
    if share < 0.85:
        ways, answer = draw.choice(OTHERS)
        return draw.choice(ways).rstrip("?.!"), answer
    if draw.random() < 0.15:
        return draw.choice(PLAIN), UNKNOWN
    return draw.choice(ASKED).format(other_noun(draw)), UNKNOWN


def with_slip(text, draw):
    """One character twice, left out, or behind the next one."""
    at = draw.randrange(len(text))
    one, rest = text[at], text[at + 1:]
    return text[:at] + draw.choice([one + one + rest, rest, rest[:1] + one + rest[1:]])


def typed(question, draw):
    """As people type: with words around it, in capitals or without, with a slip now and then."""
    if draw.random() < 0.2:
        question = draw.choice(BEFORE) + question
    if draw.random() < 0.15:
        question += draw.choice(BEHIND)
    if draw.random() < 0.12:
        question = with_slip(question, draw)
    case = draw.random()
    question = question.lower() if case < 0.35 else question[:1].upper() + question[1:]
    return question + draw.choices(["?", "", ".", "!"], weights=[60, 30, 7, 3])[0]


def main():
    draw = random.Random(1)
    for _ in range(36000):
        question, answer = asked(draw)
        print(f"Q: {typed(question, draw)}\nA: {answer}")


if __name__ == "__main__":
    main()
