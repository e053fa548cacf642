# Writes the files of a folder as a table (embedded.h) in C: cmake -DFOLDER=... -DTABLE=... -DOUT=... -P embed.cmake
set(types html "text/html\; charset=utf-8" css "text/css\; charset=utf-8" js "text/javascript\; charset=utf-8"
          py text/x-python svg image/svg+xml png image/png ico image/x-icon json application/json)
set(arrays "")
set(rows "")
file(GLOB files LIST_DIRECTORIES false ${FOLDER}/*)
set(number 0)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  get_filename_component(extension ${file} LAST_EXT)
  string(SUBSTRING "${extension}" 1 -1 extension)
  list(FIND types "${extension}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${file}: no content type is known for .${extension}")
  endif()
  math(EXPR at "${at} + 1")
  list(GET types ${at} type)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n"
         bytes "${bytes}")
  file(SIZE ${file} n_bytes)
  string(APPEND arrays "static const unsigned char file_${number}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"/${name}\", \"${type}\", file_${number}, ${n_bytes}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "#include \"base/embedded.h\"\n\n${arrays}\nextern const yk_embedded_file ${TABLE}[];\n"
                     "const yk_embedded_file ${TABLE}[] = {\n${rows}"
                     "    {NULL, NULL, NULL, 0},\n};\n")
