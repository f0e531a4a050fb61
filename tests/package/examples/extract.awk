# Prints the examples of the headers it reads as one C++ file, each as a function in its header's namespace.
# An example is what a doc comment indents by exactly three spaces behind an empty line ("///"); other text is indented
# otherwise. With -v run=1: only those that assert something, and a main() that calls them.
function flush_header(   i) {
  for (i = 1; i <= count; ++i) {
    if (run && body[i] !~ /assert\(/) continue
    ++printed
    printf "namespace %s {\nvoid example_%d() {\n%s}\n}\n", space, printed, body[i]
    calls = calls "  " space "::example_" printed "();\n"
  }
  count = 0
}
BEGIN { print "#include \"given.h\"" }
FNR == 1 { flush_header(); space = ""; empty = 0; inside = 0 }
space == "" && match($0, /^namespace [a-z:]+ \{$/) { space = $2 }
/^ *\/\/\/   [^ ]/ && empty { body[++count] = "#line " FNR " \"" FILENAME "\"\n"; inside = 1 }
{ empty = /^ *\/\/\/$/ }
!/^ *\/\/\/   / { inside = 0 }
inside { sub(/^ *\/\/\/   /, ""); body[count] = body[count] $0 "\n" }
END {
  flush_header()
  if (run) printf "int main() {\n%s}\n", calls
  print printed " examples" (run ? " run" : "") > "/dev/stderr"
}
