/* input_order.cu - see input_order.h.
 *
 *   thread block   up to MOST_ROWS neighbouring rows of y, by 8 inputs per thread; the columns of these inputs stay in
 *                  registers as long as the rows belong to one matrix, and so have one order
 *   row            the row of x is copied into shared memory, followed by a zero for inputs without a column, and each
 *                  thread gathers its 8 inputs from there. Two buffers: one row is loaded while the other is read. If
 *                  two rows do not fit in shared memory, inputs are gathered from x itself, 2 bytes at a time */
#include "kernels/cuda/linear/input_order.h"

#include <algorithm>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

using namespace yk_cuda;

namespace {

constexpr int ORDER_THREADS = 256, WIDE = 8;         /* 16-bit elements in 16 bytes */
constexpr int64_t FEW_BLOCKS = 1024, MOST_ROWS = 16; /* blocks that are enough to fill a GPU; rows of a block */

/* Elements of a buffer: a row and the zero after it, rounded up to whole vectors. */
__host__ __device__ int64_t buffer_size(int64_t x_size)
{
  return (x_size / WIDE + 1) * WIDE;
}

/* The matrix of a row (slot), computed by all threads of the block, which count the matrices that end before the
 * row. */
__device__ int matrix_of(const yk_cuda_input_order_args &a, int64_t row)
{
  int n = 0;
  for (int first = 0; first < a.n_matrices; first += ORDER_THREADS) {
    const int m = first + static_cast<int>(threadIdx.x);
    n += __syncthreads_count(m < a.n_matrices && __ldcg(a.starts + m + 1) <= row);
  }
  return n;
}

/* The columns of x of the 8 inputs that a thread gathers; x_size, the index of the zero, for an input without a
 * column. */
struct columns_of_thread {
  int at[WIDE];

  __device__ void load(const yk_cuda_input_order_args &a, int matrix, int64_t first)
  {
    const char *orders = reinterpret_cast<const char *>(a.order) + matrix * a.matrix_bytes;
    const int32_t *order = reinterpret_cast<const int32_t *>(orders) + first;
#pragma unroll
    for (int i = 0; i < WIDE; i++) at[i] = first + i < a.k ? __ldg(order + i) : -1;
#pragma unroll
    for (int i = 0; i < WIDE; i++)
      if (at[i] < 0) at[i] = static_cast<int>(a.x_size);
  }
};

/* Issues the copy of a row of x into a buffer. IS_WIDE: rows of x and of y are whole vectors of 16 bytes. */
template <bool IS_WIDE> __device__ void fetch_row(const yk_cuda_input_order_args &a, int64_t row, uint16_t *to)
{
  const uint16_t *from = static_cast<const uint16_t *>(a.x) + row * a.x_size;
  if constexpr (IS_WIDE) {
    const uint32_t address = yk_ptx::shared_address(to);
    for (int64_t i = threadIdx.x; i < a.x_size / WIDE; i += ORDER_THREADS)
      yk_ptx::cp_async_16(address + static_cast<uint32_t>(i) * 16, from + i * WIDE, true);
  } else {
    for (int64_t i = threadIdx.x; i < a.x_size; i += ORDER_THREADS) to[i] = __ldcg(from + i);
  }
  yk_ptx::cp_async_commit();
}

/* An element of a row: from the row's copy in shared memory (IS_STAGED), or from x itself, which has no zero after the
 * row. */
template <bool IS_STAGED> __device__ uint16_t element_of(const uint16_t *row, int column, int64_t x_size)
{
  if constexpr (IS_STAGED)
    return row[column];
  else
    return column < x_size ? __ldcg(row + column) : 0;
}

template <bool IS_WIDE, bool IS_STAGED>
__device__ void store(const yk_cuda_input_order_args &a, const uint16_t *from, const columns_of_thread &columns,
                      int64_t row, int64_t first)
{
  uint16_t *to = static_cast<uint16_t *>(a.y) + row * a.k + first;
  vec<uint16_t, WIDE> values;
#pragma unroll
  for (int i = 0; i < WIDE; i++) values.at[i] = element_of<IS_STAGED>(from, columns.at[i], a.x_size);
  if constexpr (IS_WIDE) {
    if (first < a.k) *reinterpret_cast<vec<uint16_t, WIDE> *>(to) = values;
  } else {
#pragma unroll
    for (int i = 0; i < WIDE; i++)
      if (first + i < a.k) to[i] = values.at[i];
  }
}

template <bool IS_WIDE, bool IS_STAGED>
__global__ void __launch_bounds__(ORDER_THREADS) input_order_kernel(const yk_cuda_input_order_args a, int64_t each)
{
  extern __shared__ __align__(16) uint16_t buffers[];
  __shared__ int32_t rows_of_x[MOST_ROWS];
  const int64_t first_row = blockIdx.x * each, size = buffer_size(a.x_size);
  const int64_t first = (blockIdx.y * ORDER_THREADS + threadIdx.x) * static_cast<int64_t>(WIDE);
  columns_of_thread columns;
  if (IS_STAGED && threadIdx.x < 2) buffers[threadIdx.x * size + a.x_size] = 0;
  if (!a.starts) columns.load(a, 0, first);
  yk_ptx::wait_for_previous_kernel();
  yk_ptx::let_next_kernel_start();
  const int64_t own_row = min(first_row + threadIdx.x, a.n_rows - 1);
  if (threadIdx.x < each) /* undefined for slots past the last */
    rows_of_x[threadIdx.x] = a.rows ? __ldcg(a.rows + own_row) : static_cast<int32_t>(own_row);
  const int64_t n_rows = a.starts ? __ldcg(a.starts + a.n_matrices) : a.n_rows, end = min(first_row + each, n_rows);
  if (first_row >= end) return;
  __syncthreads();
  if constexpr (IS_STAGED) fetch_row<IS_WIDE>(a, rows_of_x[0], buffers);
  int matrix = 0;
  int64_t end_of_matrix = n_rows;
  if (a.starts) {
    matrix = matrix_of(a, first_row);
    end_of_matrix = __ldcg(a.starts + matrix + 1);
    columns.load(a, matrix, first);
  }
  for (int64_t row = first_row, buffer = 0; row < end; row++, buffer ^= 1) {
    const int before = matrix;
    while (end_of_matrix <= row) end_of_matrix = __ldcg(a.starts + ++matrix + 1);
    if (matrix != before) columns.load(a, matrix, first);
    const uint16_t *from = static_cast<const uint16_t *>(a.x) + rows_of_x[row - first_row] * a.x_size;
    if constexpr (IS_STAGED) {
      yk_ptx::cp_async_wait<0>();
      __syncthreads(); /* this row of x has arrived, and the previous row has been read */
      if (row + 1 < end) fetch_row<IS_WIDE>(a, rows_of_x[row + 1 - first_row], buffers + (buffer ^ 1) * size);
      from = buffers + buffer * size;
    }
    store<IS_WIDE, IS_STAGED>(a, from, columns, row, first);
  }
}

template <bool IS_STAGED> auto kernel_of(bool is_wide)
{
  return is_wide ? input_order_kernel<true, IS_STAGED> : input_order_kernel<false, IS_STAGED>;
}

/* Whether that much dynamic shared memory fits in addition to the kernel's static memory. */
cudaError_t check_fits(size_t bytes, bool *fits)
{
  int device = 0, most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  *fits = bytes + MOST_ROWS * sizeof(int32_t) <= static_cast<size_t>(most);
  return error;
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_input_order(const yk_cuda_input_order_args *args, cudaStream_t stream)
{
  if (args->n_rows == 0 || args->k == 0) return cudaSuccess;
  const bool is_wide =
      args->x_size % WIDE == 0 && args->k % WIDE == 0 && is_aligned(args->x, 16) && is_aligned(args->y, 16);
  const int64_t each = std::clamp<int64_t>(args->n_rows / FEW_BLOCKS, 1, MOST_ROWS), chunk = ORDER_THREADS * WIDE;
  const dim3 grid(static_cast<unsigned>((args->n_rows + each - 1) / each),
                  static_cast<unsigned>((args->k + chunk - 1) / chunk));
  size_t bytes = static_cast<size_t>(2 * buffer_size(args->x_size)) * sizeof(uint16_t);
  bool fits = false;
  cudaError_t error = check_fits(bytes, &fits);
  if (error != cudaSuccess) return error;
  if (!fits) bytes = 0;
  const auto kernel = fits ? kernel_of<true>(is_wide) : kernel_of<false>(is_wide);
  const void *of_kernel = reinterpret_cast<const void *>(kernel);
  error = yk_ptx::prefer_shared_memory(of_kernel);
  if (error == cudaSuccess && bytes > 48 * 1024)
    error = cudaFuncSetAttribute(of_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  return yk_ptx::launch_dependent(kernel, {grid, ORDER_THREADS, bytes, 1}, stream, *args, each);
}
