# Writes OUT, a C file with the texts of the helper's modules: cmake -DFOLDER=... -DOUT=... -P embed_scripts.cmake
set(entries)
set(texts)
foreach(module marked_text syscall_filter template_helper)
  file(READ ${FOLDER}/${module}.py hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND texts "static const char ${module}[] = {\n${bytes}0};\n")
  string(APPEND entries "{\"${module}\", ${module}}, ")
endforeach()
file(WRITE ${OUT}
     "#include \"chat/chat_scripts.h\"\n\n${texts}\nconst yk_chat_script yk_chat_scripts[] = {${entries}};\n")
