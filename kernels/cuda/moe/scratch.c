/* scratch.c - see scratch.h. */
#include "kernels/cuda/moe/scratch.h"

#include "kernels/cuda/layout/layout.h"
#include "kernels/mixture_calls.h"

int64_t yk_cuda_mixture_scratch_bytes(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                      const yk_linear_spec *down)
{
  return yk_mixture_lay_out(sizes, gate_up ? yk_cuda_linear_staging_bytes(gate_up) : 0,
                            down ? yk_cuda_linear_staging_bytes(down) : 0)
      .end;
}
