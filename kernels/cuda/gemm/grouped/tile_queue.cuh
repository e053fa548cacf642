/* tile_queue.cuh - a queue in shared memory, with which one thread of a block passes output tiles to the other warps of
 * the block. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_TILE_QUEUE_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_TILE_QUEUE_CUH

#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/ptx/registers.cuh"

namespace yk_gemm {

/* rows: 0 after the last tile; a negative value -n means that n stages of weights must be skipped. panel: the first of
 * its panels. */
struct grouped_tile {
  int matrix, first_slot, rows, panel;
};

/* In shared memory. A place of the queue is full once its tile is written, and empty once all reading warps have read
 * it. */
struct tile_queue {
  static constexpr int PLACES = 4; /* how many tiles the producers may be ahead of the consumers */
  uint64_t full[PLACES], empty[PLACES];
  int4 tiles[PLACES];

  /* Called by one thread. */
  __device__ __forceinline__ void init(int reading_warps)
  {
    for (int i = 0; i < PLACES; i++) {
      yk_ptx::mbarrier_init(full + i, 1);
      yk_ptx::mbarrier_init(empty + i, reading_warps);
    }
  }
};

/* Position of the writing thread. */
struct tile_writer {
  tile_queue &queue;
  yk_cuda::ring_position at = {0, 1};

  __device__ __forceinline__ void put(const grouped_tile &w)
  {
    yk_ptx::mbarrier_wait_asm_loop(queue.empty + at.stage, at.phase);
    queue.tiles[at.stage] = make_int4(w.matrix, w.first_slot, w.rows, w.panel);
    yk_ptx::mbarrier_arrive(queue.full + at.stage);
    at.advance(tile_queue::PLACES);
  }
};

/* Position of a reading warp. */
struct tile_reader {
  tile_queue &queue;
  yk_cuda::ring_position at;

  /* Called by all lanes. Returns false if there are no more tiles. */
  __device__ __forceinline__ bool next(grouped_tile &w)
  {
    yk_ptx::mbarrier_wait_asm_loop(queue.full + at.stage, at.phase);
    const int4 v = queue.tiles[at.stage];
    w = {uniform(v.x), uniform(v.y), uniform(v.z), uniform(v.w)};
    __syncwarp();
    if (threadIdx.x % 32 == 0) yk_ptx::mbarrier_arrive(queue.empty + at.stage);
    at.advance(tile_queue::PLACES);
    return w.rows != 0;
  }

private:
  /* A value that the compiler also knows to be equal in all lanes. */
  __device__ __forceinline__ static int uniform(int value)
  {
    return static_cast<int>(yk_ptx::kept_in_warp(static_cast<uint32_t>(value)));
  }
};

} // namespace yk_gemm

#endif
