# cmake -DOUT=file.cpp -DFILE=page.html -DNAMESPACE=a::b -DFUNCTION=page -P EmbedText.cmake: a file's text as what a
# function `std::string_view page()` returns.
file(READ "${FILE}" text)
file(WRITE "${OUT}.new" "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\nstd::string_view ${FUNCTION}() {
  return R\"EMBEDDED(${text})EMBEDDED\";\n}\n\n}  // namespace ${NAMESPACE}\n")
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)
