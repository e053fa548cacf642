/* await_writes_p2p.cu - rank 0 waits for the other ranks' writes to its memory (a one-sided gather): see await_writes
 * in comm.h. */
#include "parallel/p2p/allreduce_p2p_slots.cuh"

namespace yk_p2p_kernels {

namespace {

/* One warp. The kernel starts once the rank's preceding kernels have ended, and its release store covers their writes.
 * On rank 0, lane r waits until rank r has launched this kernel at least as often as rank 0; the other ranks do not
 * wait. */
__global__ void await_writes_kernel(const launch_args a, uint32_t *arrived)
{
  block_view view(a);
  view.count_launch();
  const int rank = static_cast<int>(threadIdx.x);
  const uint32_t n = view.n_launches + 1;
  if (a.rank != 0) {
    if (rank == 0) yk_ptx::store_release_sys(&arrived[a.rank], n);
  } else {
    view.wait(a.timeout_ns, [&] {
      if (rank == 0 || rank >= a.n_ranks) return -1;
      return static_cast<int32_t>(yk_ptx::load_acquire_sys(&arrived[rank]) - n) < 0 ? rank : -1;
    });
  }
}

} // namespace

cudaError_t launch_await_writes(const launch_args &args, uint32_t *arrived, cudaStream_t stream)
{
  await_writes_kernel<<<1, 32, 0, stream>>>(args, arrived);
  return cudaGetLastError();
}

cudaError_t load_await_writes()
{
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, await_writes_kernel);
}

} // namespace yk_p2p_kernels
