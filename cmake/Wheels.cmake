# Imported targets for the libraries that hone takes out of Python wheels. The build includes this file, and so does the installed CMake package.

# hone_torch_version(FOLDER VARIABLE): "2.13", of the libtorch in FOLDER. Its C++ interface changes with each.
function(hone_torch_version folder variable)
  set(lines "")
  foreach(header headeronly/version.h csrc/api/include/torch/version.h)  # from 2.9 on, and before
    if(EXISTS ${folder}/include/torch/${header})
      file(STRINGS ${folder}/include/torch/${header} found REGEX "define TORCH_VERSION_M(AJOR|INOR) +[0-9]+")
      list(APPEND lines ${found})
    endif()
  endforeach()
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*" "\\1.\\2" version "${lines}")
  set(${variable} ${version} PARENT_SCOPE)
endfunction()

# hone_import_torch(FOLDER): hone::torch, the libtorch in FOLDER, a torch wheel's or a libtorch archive's; sets HONE_OPENMP_RUNTIME.
function(hone_import_torch folder)
  set(lib ${folder}/lib)
  add_library(hone::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(hone::torch INTERFACE ${folder}/include ${folder}/include/torch/csrc/api/include)
  target_compile_definitions(hone::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)  # as every wheel is built
  # Operators register themselves as their library is loaded: it must be, although nothing calls into it.
  target_link_libraries(hone::torch INTERFACE ${lib}/libtorch.so "-Wl,--no-as-needed,${lib}/libtorch_cpu.so -Wl,--as-needed" ${lib}/libc10.so)
  # The OpenMP runtime is the one that libtorch brings and uses.
  file(GLOB runtime ${lib}/libgomp*.so* ${folder}/../torch.libs/libgomp*.so*)
  if(NOT runtime)
    find_package(OpenMP REQUIRED)
    set(runtime ${OpenMP_gomp_LIBRARY})
  endif()
  list(GET runtime 0 runtime)
  target_link_libraries(hone::torch INTERFACE ${runtime})
  set(HONE_OPENMP_RUNTIME ${runtime} PARENT_SCOPE)
endfunction()

# hone_import_torch_cuda(FOLDER): adds libtorch's CUDA part, which kernels of our own link to.
function(hone_import_torch_cuda folder)
  target_link_libraries(hone::torch INTERFACE "-Wl,--no-as-needed,${folder}/lib/libtorch_cuda.so -Wl,--as-needed" ${folder}/lib/libc10_cuda.so)
endfunction()

# hone_import_arrow(LIBRARY_FOLDER VERSION): hone::arrow, the Arrow and Parquet libraries of a pyarrow wheel.
function(hone_import_arrow lib version)
  add_library(hone::arrow INTERFACE IMPORTED GLOBAL)
  # libarrow exports the functions of its own simdjson. Ours must stand before it, or we would call those with our version's objects.
  target_link_libraries(hone::arrow INTERFACE $<TARGET_FILE:simdjson::simdjson> ${lib}/libparquet.so.${version} ${lib}/libarrow.so.${version})
endfunction()
