# hone_embed_page(TARGET FOLDER): puts the page's files into the program, as hone::serve::page_files().
# Run as a script (cmake -P) with OUTPUT and FILES it writes the source.
if(CMAKE_SCRIPT_MODE_FILE)
  set(entries "")
  foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    file(READ ${file} bytes HEX)
    string(LENGTH "${bytes}" digits)
    math(EXPR size "${digits} / 2")
    string(REGEX REPLACE "(..)" "\\\\x\\1" literal "${bytes}")
    # Short pieces: compilers limit the length of one literal, and adjacent ones are joined.
    string(REGEX REPLACE "((\\\\x..)(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?(\\\\x..)?)" "\"\\1\"" literal "${literal}")
    string(APPEND entries "    {\"${name}\", std::string_view(${literal}, ${size})},\n")
  endforeach()
  file(WRITE ${OUTPUT} "// Generated from src/hone/serve/page by cmake/EmbedFiles.cmake.\n#include \"hone/serve/page/page.h\"\n\nnamespace hone::serve {\nnamespace {\nconstexpr PageFile kFiles[] = {\n${entries}};\n}  // namespace\nstd::span<const PageFile> page_files() { return kFiles; }\n}  // namespace hone::serve\n")
  return()
endif()

set(HONE_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(hone_embed_page target folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js ${folder}/*.svg)
  set(source ${CMAKE_BINARY_DIR}/generated/page_files.cpp)
  add_custom_command(OUTPUT ${source} DEPENDS ${files} ${HONE_EMBED_SCRIPT} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DOUTPUT=${source} "-DFILES=${files}" -P ${HONE_EMBED_SCRIPT})
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
