# Finds what hone stands on. Required: libtorch and a few Debian libraries. Optional: Arrow (Parquet), CUDA, SentencePiece is read by our own code.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
# The torch wheel carries fmt headers of its own version. A folder searched first makes every file see those of the library we link.
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
list(GET fmt_headers 0 fmt_headers)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/first)
file(CREATE_LINK ${fmt_headers}/fmt ${CMAKE_BINARY_DIR}/first/fmt SYMBOLIC)
include_directories(BEFORE ${CMAKE_BINARY_DIR}/first)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

# libtorch comes out of a Python environment's torch wheel: the project's .venv, or the python3 of the machine.
set(HONE_PYTHON "" CACHE FILEPATH "Python whose torch is linked; empty: .venv/bin/python, else python3")
set(python ${HONE_PYTHON})
if(NOT python)
  if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
    set(python ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  else()
    find_program(python python3 REQUIRED)
  endif()
endif()
if(NOT Torch_DIR)
  execute_process(COMMAND ${python} -c "import torch; print(torch.utils.cmake_prefix_path)"
                  OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
endif()
find_package(Torch REQUIRED)
add_compile_options(${TORCH_CXX_FLAGS})
add_library(hone_torch INTERFACE)
target_include_directories(hone_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# c10d's Gloo backend is in every torch wheel, its headers are not: see gloo_shim/gloo/algorithm.h.
add_library(hone_gloo INTERFACE)
target_include_directories(hone_gloo SYSTEM INTERFACE ${CMAKE_SOURCE_DIR}/cmake/gloo_shim)
target_compile_definitions(hone_gloo INTERFACE USE_C10D_GLOO)

# Arrow and Parquet come out of the pyarrow wheel of the same Python. Without it, Parquet files are refused with the fix.
option(HONE_ARROW "Read Parquet through pyarrow's Arrow, when it is there" ON)
set(HONE_WITH_ARROW OFF)
if(HONE_ARROW)
  execute_process(COMMAND ${python} -c "import pyarrow; print(pyarrow.get_include(), pyarrow.get_library_dirs()[0], pyarrow.cpp_build_info.so_version, sep=';')"
                  OUTPUT_VARIABLE arrow_places RESULT_VARIABLE arrow_missing OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT arrow_missing)
    list(GET arrow_places 0 arrow_include)
    list(GET arrow_places 1 arrow_lib)
    list(GET arrow_places 2 arrow_so)
  endif()
  if(NOT arrow_missing AND EXISTS ${arrow_include}/parquet/arrow/reader.h AND EXISTS ${arrow_lib}/libparquet.so.${arrow_so})
    set(HONE_WITH_ARROW ON)
    add_library(hone_part_arrow INTERFACE)
    target_include_directories(hone_part_arrow SYSTEM INTERFACE ${arrow_include})
    # libarrow exports the functions of its own simdjson. Ours must stand before it, or we would call those with our version's objects.
    target_link_libraries(hone_part_arrow INTERFACE $<TARGET_FILE:simdjson::simdjson> ${arrow_lib}/libparquet.so.${arrow_so}
                          ${arrow_lib}/libarrow.so.${arrow_so})
  endif()
endif()
message(STATUS "Parquet (Arrow from pyarrow): ${HONE_WITH_ARROW}")
