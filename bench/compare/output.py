"""Files of results, written whole or not at all."""
import os


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)
    print(f"wrote {path}")
