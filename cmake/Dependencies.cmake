# Finds what hone stands on. Required: libtorch and a few Debian libraries. Optional: Arrow (Parquet), CUDA, libcurl, image and audio libraries, FFmpeg, Cairo, libedit; SentencePiece is read by our own code.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
# The torch wheel carries fmt headers of its own version. A folder that is searched first makes every file include those of the library we link.
get_target_property(fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
list(GET fmt_headers 0 fmt_headers)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/first)
file(CREATE_LINK ${fmt_headers}/fmt ${CMAKE_BINARY_DIR}/first/fmt SYMBOLIC)
include_directories(BEFORE ${CMAKE_BINARY_DIR}/first)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
# Asio and Beast, compiled once (serve/http/boost.cpp) instead of in every file that includes them.
add_library(hone_net INTERFACE)
target_link_libraries(hone_net INTERFACE Boost::headers OpenSSL::SSL OpenSSL::Crypto)
target_compile_definitions(hone_net INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_BEAST_SEPARATE_COMPILATION)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(highway REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)

include(Torch) # hone::torch, and ${python} whose wheels it came from

# c10d's Gloo backend is in every torch wheel, its headers are not: see gloo_shim/gloo/algorithm.h.
add_library(hone_gloo INTERFACE)
target_include_directories(hone_gloo SYSTEM INTERFACE ${CMAKE_SOURCE_DIR}/cmake/gloo_shim)
target_compile_definitions(hone_gloo INTERFACE USE_C10D_GLOO)
# Kernels of our own for NVIDIA GPUs need nvcc, its headers and a libtorch made for CUDA; without either, compositions of
# libtorch's run there, and its CUDA part is loaded when the program starts (device/cuda_library.h).
set(HONE_WITH_CUDA OFF)
set(HONE_WITH_HOPPER OFF)
if(HONE_TORCH_HAS_CUDA)
  # The system's toolkit, or the one that set-up installs from PyPI next to a GPU.
  set(own_toolkit ${CMAKE_SOURCE_DIR}/.venv/cuda/nvidia/cu13)
  find_program(HONE_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NOT HONE_NVCC AND EXISTS /dev/nvidia0 AND EXISTS ${own_toolkit}/bin/nvcc)
    set(HONE_NVCC ${own_toolkit}/bin/nvcc CACHE FILEPATH "" FORCE)
    set(CUDAToolkit_ROOT ${own_toolkit})
  endif()
  if(HONE_NVCC AND NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${HONE_NVCC})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90)  # and, as code to be finished at run time, what comes after
      if(EXISTS /dev/nvidia0)
        set(CMAKE_CUDA_ARCHITECTURES native)
      endif()
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # Debian's CMake does not know that nvcc can
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # libtorch brings it
    # libtorch's headers include those of libraries that a small toolkit lacks and the wheels next to torch's contain.
    file(GLOB nvidia_headers ${TORCH_INSTALL_PREFIX}/../nvidia/*/include)
    target_include_directories(hone::torch INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${nvidia_headers})
    hone_import_torch_cuda(${TORCH_INSTALL_PREFIX})
    set(HONE_WITH_CUDA ON)
    # cudaGetDriverEntryPointByVersion is declared by the compiler's headers and defined by the runtime library, which is torch's.
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.5 AND HONE_TORCH_CUDA_VERSION VERSION_GREATER_EQUAL 12.5)
      set(HONE_WITH_HOPPER ON)
    endif()
  endif()
endif()
message(STATUS "CUDA kernels: ${HONE_WITH_CUDA}")

# c10d's NCCL backend is inside libtorch when that was made for CUDA, and declared only when asked for. Its header needs CUDA's and nccl.h, which
# comes in a wheel that torch's brings along.
set(HONE_WITH_NCCL OFF)
if(HONE_WITH_CUDA)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include)
  if(NCCL_INCLUDE_DIR)
    set(HONE_WITH_NCCL ON)
    target_include_directories(hone_gloo SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
    target_compile_definitions(hone_gloo INTERFACE USE_C10D_NCCL)
  endif()
endif()
message(STATUS "NCCL: ${HONE_WITH_NCCL}")

# Arrow and Parquet come out of the pyarrow wheel of the same Python. Without it, Parquet files are refused with the fix.
option(HONE_ARROW "Read Parquet through pyarrow's Arrow, when it is there" ON)
set(HONE_WITH_ARROW OFF)
if(HONE_ARROW)
  # Found, not imported: pyarrow's module may refuse the numpy of an NPU server, which its C++ libraries do not use.
  execute_process(COMMAND ${python} -c "import importlib.util as u; print(u.find_spec('pyarrow').submodule_search_locations[0])"
                  OUTPUT_VARIABLE arrow_lib RESULT_VARIABLE arrow_missing OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(arrow_include ${arrow_lib}/include)
  file(GLOB arrow_so "${arrow_lib}/libarrow.so.*")
  string(REGEX REPLACE ".*libarrow\\.so\\.([0-9]+).*" "\\1" arrow_so "${arrow_so}")
  if(NOT arrow_missing AND EXISTS ${arrow_include}/parquet/arrow/reader.h AND EXISTS ${arrow_lib}/libparquet.so.${arrow_so})
    set(HONE_WITH_ARROW ON)
    hone_import_arrow(${arrow_lib} ${arrow_so})
    add_library(hone_part_arrow INTERFACE)
    target_include_directories(hone_part_arrow SYSTEM INTERFACE $<BUILD_INTERFACE:${arrow_include}>)
    target_link_libraries(hone_part_arrow INTERFACE hone::arrow)
  endif()
endif()
message(STATUS "Parquet (Arrow from pyarrow): ${HONE_WITH_ARROW}")

# Downloads from the model hubs: libcurl and OpenSSL's hashes. Without them, models are found in folders and caches only.
option(HONE_CURL "Download models and datasets through libcurl, when it is there" ON)
set(HONE_WITH_CURL OFF)
if(HONE_CURL)
  find_package(CURL 7.85)
  find_package(OpenSSL COMPONENTS Crypto)
  if(CURL_FOUND AND OPENSSL_CRYPTO_LIBRARY)
    set(HONE_WITH_CURL ON)
    add_library(hone_part_curl INTERFACE)
    target_link_libraries(hone_part_curl INTERFACE CURL::libcurl OpenSSL::Crypto)
  endif()
endif()
message(STATUS "Downloads (libcurl, OpenSSL): ${HONE_WITH_CURL}")

# A part that pkg-config finds: option HONE_<PART>, answer HONE_WITH_<PART>, and hone_part_<part> to link with. Without it hone says what is missing where it is needed.
macro(hone_pkg_part part label help)
  string(TOUPPER ${part} hone_part_option)
  option(HONE_${hone_part_option} "${help}" ON)
  set(HONE_WITH_${hone_part_option} OFF)
  if(HONE_${hone_part_option})
    pkg_check_modules(${part} IMPORTED_TARGET ${ARGN})
    if(${part}_FOUND)
      set(HONE_WITH_${hone_part_option} ON)
      add_library(hone_part_${part} INTERFACE)
      target_link_libraries(hone_part_${part} INTERFACE PkgConfig::${part})
    endif()
  endif()
  message(STATUS "${label}: ${HONE_WITH_${hone_part_option}}")
endmacro()

# Pictures: PNG, JPEG, WebP, and GIF and BMP without a library. Without the three libraries, rows with images are refused with the fix.
hone_pkg_part(images "Images (libpng, libjpeg, libwebp)" "Decode images by libpng, libjpeg-turbo and libwebp, when they are there" libpng libjpeg libwebp libwebpdemux)

# TIFF pictures. Without libtiff, or with one before 4.5 (whose limits and messages are global), they are refused with the fix.
hone_pkg_part(tiff "TIFF images (libtiff)" "Decode TIFF images by libtiff, when it is there" libtiff-4>=4.5)

# Recordings: WAV, FLAC, OGG and MP3. Without the two libraries, rows with audios are refused with the fix.
hone_pkg_part(audio "Audio (libsndfile, libsoxr)" "Decode audio by libsndfile and resample it by libsoxr, when they are there" sndfile soxr)

# Video files. FFmpeg's headers are enough to build: its libraries are opened when a video is read. Without them, lists of frames are read.
option(HONE_VIDEO "Read video files by FFmpeg's libraries, when their headers are there" ON)
set(HONE_WITH_VIDEO OFF)
if(HONE_VIDEO)
  pkg_check_modules(video libavformat libavcodec libavutil libswscale)
  if(video_FOUND)
    set(HONE_WITH_VIDEO ON)
    add_library(hone_part_video INTERFACE)
    target_include_directories(hone_part_video SYSTEM INTERFACE $<BUILD_INTERFACE:${video_INCLUDE_DIRS}>)
    target_link_libraries(hone_part_video INTERFACE ${CMAKE_DL_LIBS})
  endif()
endif()
message(STATUS "Video files (FFmpeg's headers): ${HONE_WITH_VIDEO}")

# Plots of training curves and load tests. Without Cairo, runs say that none are drawn.
hone_pkg_part(cairo "Plots (Cairo)" "Draw plots by Cairo, when it is there" cairo cairo-svg libpng zlib fontconfig)

# Line editing in the terminal chat. Without libedit, lines come as the terminal sends them.
hone_pkg_part(libedit "Line editing (libedit)" "Edit the lines of a chat by libedit, when it is there" libedit)
