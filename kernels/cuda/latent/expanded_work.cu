/* expanded_work.cu - lists the sequences that use expanded keys and values, and the rows of all others. */
#include "kernels/cuda/latent/expanded_work.cuh"

using namespace yk_ptx;

namespace yk_latent {
namespace {

constexpr int LIST_THREADS = 1024;

struct step_rows {
  const int32_t *row_starts, *kv_tokens, *positions, *kv_slots, *seq_of_row;
  int32_t n_tokens, n_seqs;
};

/* Called by all threads: exclusive prefix sum, of both components, over the threads; *total: the sum over all
 * threads. */
__device__ int2 scan_block(int2 own, int2 *total)
{
  __shared__ int2 of_warp[LIST_THREADS / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int2 sum = own;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int x = __shfl_up_sync(~0u, sum.x, offset), y = __shfl_up_sync(~0u, sum.y, offset);
    if (lane >= offset) sum = make_int2(sum.x + x, sum.y + y);
  }
  if (lane == 31) of_warp[warp] = sum;
  __syncthreads();
  int2 before = make_int2(sum.x - own.x, sum.y - own.y);
  *total = make_int2(0, 0);
  for (int w = 0; w < LIST_THREADS / 32; w++) {
    const int2 part = of_warp[w];
    if (w < warp) before = make_int2(before.x + part.x, before.y + part.y);
    *total = make_int2(total->x + part.x, total->y + part.y);
  }
  __syncthreads();
  return before;
}

__device__ __forceinline__ int32_t rows_of(const step_rows &s, int32_t seq)
{
  return s.row_starts[seq + 1] - s.row_starts[seq];
}

__device__ __forceinline__ bool is_expanded(const step_rows &s, int32_t seq)
{
  return rows_of(s, seq) > YK_CUDA_LATENT_EXPANDED_ROWS && s.kv_tokens[seq] > 0;
}

/* One thread block. */
__global__ void __launch_bounds__(LIST_THREADS)
    list_expanded_kernel(const step_rows s, expanded_work *work, other_rows others)
{
  let_next_kernel_start();
  wait_for_previous_kernel(); /* earlier kernels read the lists */
  int2 total, tiles = make_int2(0, 0);
  int32_t n_seqs = 0, n_others = 0;
  for (int32_t base = 0; base < s.n_seqs; base += LIST_THREADS) {
    const int32_t seq = base + static_cast<int32_t>(threadIdx.x);
    const bool taken = seq < s.n_seqs && is_expanded(s, seq);
    const int32_t key_tiles = taken ? (s.kv_tokens[seq] + EXPANDED_TILE - 1) / EXPANDED_TILE : 0;
    const int32_t row_tiles = taken ? (rows_of(s, seq) + EXPANDED_TILE - 1) / EXPANDED_TILE : 0;
    const int2 at = scan_block(make_int2(key_tiles, row_tiles), &total);
    int2 count;
    const int32_t place = n_seqs + scan_block(make_int2(taken, 0), &count).x;
    if (taken)
      work->seqs[place] = {seq, s.row_starts[seq], rows_of(s, seq), s.kv_tokens[seq], tiles.x + at.x, tiles.y + at.y};
    n_seqs += count.x;
    tiles = make_int2(tiles.x + total.x, tiles.y + total.y);
  }
  for (int32_t base = 0; base < s.n_tokens; base += LIST_THREADS) {
    const int32_t row = base + static_cast<int32_t>(threadIdx.x);
    const bool taken = row < s.n_tokens && s.kv_slots[row] >= 0 && !is_expanded(s, s.seq_of_row[row]);
    const int32_t place = n_others + scan_block(make_int2(taken, 0), &total).x;
    if (taken) {
      others.rows[place] = row;
      others.positions[place] = s.positions[row];
      others.kv_slots[place] = s.kv_slots[row];
      others.seq_of_row[place] = s.seq_of_row[row];
    }
    n_others += total.x;
  }
  for (int32_t place = n_others + threadIdx.x; place < others.most; place += LIST_THREADS) {
    others.rows[place] = others.positions[place] = others.seq_of_row[place] = 0;
    others.kv_slots[place] = -1; /* a padding row */
  }
  for (int i = threadIdx.x; i < YK_CUDA_LATENT_HEAD_GROUPS; i += LIST_THREADS) work->next_tile[i] = 0;
  if (threadIdx.x == 0) {
    work->n_seqs = n_seqs;
    work->n_key_tiles = tiles.x;
    work->n_row_tiles = tiles.y;
    work->n_other_rows = n_others;
  }
}

} // namespace

cudaError_t launch_list_expanded(const yk_batch &batch, expanded_work *work, const other_rows &others,
                                 cudaStream_t stream)
{
  const step_rows rows = {batch.row_starts, batch.kv_tokens, batch.positions, batch.kv_slots,
                          batch.seq_of_row, batch.n_tokens,  batch.n_seqs};
  return launch_dependent(list_expanded_kernel, {1, LIST_THREADS, 0, 1}, stream, rows, work, others);
}

} // namespace yk_latent
