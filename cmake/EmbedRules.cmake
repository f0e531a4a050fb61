# cmake -DOUT=file.cpp -DFILES=a.egg|b.egg -P EmbedRules.cmake: the rule files as string constants.
string(REPLACE "|" ";" files "${FILES}")
set(entries "")
foreach(file ${files})
  file(READ "${file}" text)
  get_filename_component(name "${file}" NAME)
  string(APPEND entries "    {\"${name}\", R\"EGG(${text})EGG\"},\n")
endforeach()
file(WRITE "${OUT}.new" "#include \"search/saturate/rule_files.h\"\n\nnamespace luminal::search {\n\nstd::span<const RuleFile> rule_files() {
  static constexpr RuleFile kFiles[] = {\n${entries}  };\n  return kFiles;\n}\n\n}  // namespace luminal::search\n")
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)
