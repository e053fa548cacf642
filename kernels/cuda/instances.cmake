# Generates sources that instantiate kernel templates: one source for each combination of types, so that the instances
# compile in parallel. A header NAME_instances.cuh defines YK_INSTANCE(types), the explicit instantiation. Without
# YOKE_TUNED_KERNELS a header, or a folder's headers together, have one source with all their instances, since reading
# CUDA's headers then takes longer than a combination.

# Adds to the list `sources` of the caller the source that instantiates `header` for the types in ARGN, and the line
# to the source's lines of that header, which the end of this file writes.
#   name   of the combination, for the name of the source
function(yoke_instance sources header name)
  set(source ${PROJECT_BINARY_DIR}/generated/${header})
  if(YOKE_TUNED_KERNELS)
    string(REGEX REPLACE "_instances\\.cuh$" "_${name}.cu" source ${source})
  elseif(header MATCHES "^kernels/cuda/gemm/(dense|grouped)/")
    string(REGEX REPLACE "/[a-z_]*\\.cuh$" "/instances.cu" source ${source})
  else()
    string(REGEX REPLACE "\\.cuh$" ".cu" source ${source})
  endif()
  if(NOT DEFINED headers_of_${source})
    set(${sources} ${${sources}} ${source} PARENT_SCOPE)
    set(generated_sources ${generated_sources} ${source} PARENT_SCOPE)
  endif()
  if(NOT header IN_LIST headers_of_${source})
    set(headers_of_${source} ${headers_of_${source}} ${header} PARENT_SCOPE)
  endif()
  list(JOIN ARGN ", " types)
  set(lines "lines_of_${source}_${header}")
  set(${lines} "${${lines}}YK_INSTANCE(${types})\n" PARENT_SCOPE)
endfunction()

set(attention kernels/cuda/attention)
set(activations f16 bf16)
set(element_f16 __half)
set(element_bf16 __nv_bfloat16)
set(dtype_f16 YK_F16)
set(dtype_bf16 YK_BF16)
set(encodings int4 int8 fp8 fp4) # of weights: each has a header encoding_NAME.cuh in kernels/cuda/gemm

set(generated_sources)
set(yoke_instances) # for every architecture
# Only for compute capability 9.0: the kernels of these sources are empty in code for other architectures.
file(GLOB yoke_sm90_sources CONFIGURE_DEPENDS kernels/cuda/gemm/grouped/single_row.cu kernels/cuda/w4a8/wgmma.cu
     kernels/cuda/gemm/dense/sliced_plain_wgmma.cu kernels/cuda/w8a8/wgmma.cu kernels/cuda/moe/routed_gemm.cu
     kernels/cuda/decode/decode.cu)
foreach(act ${activations})
  foreach(encoding ${encodings})
    string(TOUPPER YK_GEMM_${encoding} enum)
    foreach(family grouped/few_rows grouped/wgmma)
      yoke_instance(yoke_sm90_sources kernels/cuda/gemm/${family}_instances.cuh ${encoding}_${act} ${enum}
                    ${dtype_${act}})
    endforeach()
    foreach(family dense/small_batch dense/wgmma)
      yoke_instance(yoke_sm90_sources kernels/cuda/gemm/${family}_instances.cuh ${encoding}_${act} ${enum}
                    ${dtype_${act}} ${dtype_${act}})
    endforeach()
  endforeach()
  yoke_instance(yoke_sm90_sources kernels/cuda/w4a8/wgmma_instances.cuh int8_${act} ${dtype_${act}} int8_t)
  yoke_instance(yoke_sm90_sources kernels/cuda/w4a8/wgmma_instances.cuh fp8_${act} ${dtype_${act}} __nv_fp8_e4m3)
  yoke_instance(yoke_sm90_sources kernels/cuda/gemm/dense/sliced_instances.cuh int4_${act} YK_GEMM_INT4
                ${dtype_${act}})
  foreach(family dense/small_batch dense/wgmma) # float32 results
    yoke_instance(yoke_sm90_sources kernels/cuda/gemm/${family}_instances.cuh int8_${act}_to_f32 YK_GEMM_INT8
                  ${dtype_${act}} YK_F32)
  endforeach()
  foreach(encoding int4 fp4)
    string(TOUPPER YK_GEMM_${encoding} enum)
    yoke_instance(yoke_sm90_sources kernels/cuda/moe/single_token_instances.cuh ${encoding}_${act} ${enum}
                  ${dtype_${act}})
  endforeach()
  foreach(family wgmma cluster expanded)
    yoke_instance(yoke_sm90_sources kernels/cuda/latent/${family}_instances.cuh ${act} ${element_${act}})
  endforeach()
  yoke_instance(yoke_sm90_sources ${attention}/prefill_row_instances.cuh ${act} ${element_${act}})
  foreach(heads TO_128 OF_256)
    string(TOLOWER ${act}_${heads} name)
    set(types ${element_${act}} YK_HEADS_${heads})
    yoke_instance(yoke_sm90_sources ${attention}/prefill_wgmma_instances.cuh ${name} ${types})
    yoke_instance(yoke_instances ${attention}/prefill_mma_sync_instances.cuh ${name} ${types})
    yoke_instance(yoke_instances ${attention}/flash_decoding_instances.cuh ${name} ${types})
  endforeach()
  yoke_instance(yoke_instances ${attention}/flash_decoding_instances.cuh ${act}_of_512 ${element_${act}}
                YK_HEADS_OF_512)
endforeach()
foreach(codes INT8 FP8)
  foreach(heads TO_128 OF_256 OF_512)
    string(TOLOWER ${codes}_${heads} name)
    yoke_instance(yoke_instances ${attention}/flash_decoding_instances.cuh ${name} yk_attn::codes<YK_KV_${codes}>
                  YK_HEADS_${heads})
  endforeach()
endforeach()

set(all_reduce parallel/p2p/allreduce_p2p_instances.cuh)
foreach(ranks 2 4 YK_P2P_MAX_RANKS)
  string(REPLACE YK_P2P_MAX_RANKS most name ${ranks})
  yoke_instance(yoke_instances ${all_reduce} i32_${name} int32_t ${ranks} NONE)
  foreach(act ${activations})
    yoke_instance(yoke_instances ${all_reduce} ${act}_norm_${name} ${element_${act}} ${ranks} RESIDUAL)
    yoke_instance(yoke_instances ${all_reduce} ${act}_result_norm_${name} ${element_${act}} ${ranks} BOTH)
  endforeach()
endforeach()
foreach(type __half __nv_bfloat16 float) # for any number of ranks
  string(REGEX REPLACE "^_+(nv_)?" "" name ${type})
  yoke_instance(yoke_instances ${all_reduce} ${name}_sum ${type} YK_P2P_MAX_RANKS NONE)
endforeach()

# Without YOKE_TUNED_KERNELS one source includes the sources of a folder, so that CUDA's headers are read once. A
# missing #include may therefore show in a tuned build only. Left out are sources for 9.0 and those whose kernels are in
# another unnamed namespace than the folder's: nvcc would confuse the two.
set(yoke_joined)
if(NOT YOKE_TUNED_KERNELS)
  foreach(folder adapters attention delta device gemm/dense gemm/grouped gemm/pack latent linear mamba moe quantize rows
                 sampling w8a8)
    file(GLOB sources CONFIGURE_DEPENDS kernels/cuda/${folder}/*.cu)
    list(REMOVE_ITEM sources ${yoke_sm90_sources})
    list(FILTER sources EXCLUDE REGEX "(mma_sm80|dense/(few_outputs|sliced|sliced_plain|wgmma)|latent/attention)\\.cu$")
    set(source ${PROJECT_BINARY_DIR}/generated/kernels/cuda/${folder}/joined.cu)
    list(TRANSFORM sources REPLACE "^${PROJECT_SOURCE_DIR}/(.*)$" "#include \"\\1\"" OUTPUT_VARIABLE lines)
    list(JOIN lines "\n" text_of_${source})
    string(APPEND text_of_${source} "\n")
    list(APPEND yoke_joined ${sources})
    list(APPEND yoke_instances ${source})
    list(APPEND generated_sources ${source})
  endforeach()
endif()

foreach(source ${generated_sources})
  foreach(header ${headers_of_${source}})
    string(APPEND text_of_${source} "#include \"${header}\"\n\n${lines_of_${source}_${header}}#undef YK_INSTANCE\n")
  endforeach()
  file(CONFIGURE OUTPUT ${source} CONTENT "${text_of_${source}}")
endforeach()
