# Compiler settings shared by every target: C++20, fast links, cached compiles.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # one setting for libraries and programs, so that they can share a precompiled header
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
# With the default (-fno-math-errno off) GCC cannot vectorise loops that call sqrtf.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wno-unused-parameter;-Wno-missing-field-initializers;-Wno-psabi;-fno-math-errno>")
# From 13 on GCC may write sums of products with separate additions, which suits some processors. Whether it does depends on the loop around,
# and two ways to one sum must round alike.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=avoid-fma-max-bits=0>)

# GCC collects its garbage early. A file's worth of it fits into memory, and walking over libtorch's declarations again and again does not pay.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)

# Messages name files as the tree does, wherever it lies: no path of the building machine in the program, and one cache for all checkouts.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)

option(HONE_WERROR "Warnings are errors" OFF)
if(HONE_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
  # What GCC 12 guesses after inlining is wrong about coroutines' frames and short strings, and GCC 13 does not share a header between -O1 and -O2: shown, but no error.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=array-bounds;-Wno-error=invalid-pch;-Wno-error=maybe-uninitialized;-Wno-error=mismatched-new-delete;-Wno-error=restrict;-Wno-error=stringop-overflow;-Wno-error=stringop-overread>")
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # A precompiled header is only cached when ccache may assume that its macros are stable.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# The torch and Arrow wheels export std::filesystem of the libstdc++ they were built with. The compiler's own comes first, and a symbol
# of each of its parts is asked for, so that ours is the one in use whether it is shared or an archive. (Through -Wl: g++ moves -lstdc++.)
set(HONE_OWN_FILESYSTEM
    "SHELL:-Wl,-u,_ZNSt10filesystem7__cxx114path14_M_split_cmptsEv,-u,_ZNSt10filesystem10remove_allERKNS_7__cxx114pathE,-u,_ZNSt10filesystem7__cxx1118directory_iteratorppEv"
    "SHELL:-Wl,--push-state,--no-as-needed,-lstdc++,--pop-state")
add_link_options(${HONE_OWN_FILESYSTEM})

option(HONE_SANITIZE "Address and undefined-behaviour sanitizers" OFF)
if(HONE_SANITIZE)
  # Without optimization: the build takes half the time, and nothing is optimized away before it is checked.
  add_compile_options(-O0 -fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
endif()
