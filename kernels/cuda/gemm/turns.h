/* turns.h - which half of each multiprocessor a WNA16 GEMM takes. Successive launches on a stream, dense or grouped,
 * take different halves, so that the later launch begins while the earlier one still runs (occupancy.cuh). Results do
 * not depend on the half. Owner: the device of the stream. Thread: the thread that launches. */
#ifndef YK_KERNELS_CUDA_GEMM_TURNS_H
#define YK_KERNELS_CUDA_GEMM_TURNS_H

#include <stdbool.h>

typedef struct yk_gemm_turns {
  bool second_half; /* half of the next launch; initially zero */
} yk_gemm_turns;

/* yk_gemm_turn - the half of the next launch: yk_gemm_call.second_half. */
static inline bool yk_gemm_turn(const yk_gemm_turns *turns)
{
  return turns->second_half;
}

/* yk_gemm_take_turn - the same, for a launch that is made: the next launch gets the other half. */
static inline bool yk_gemm_take_turn(yk_gemm_turns *turns)
{
  const bool second_half = turns->second_half;
  turns->second_half = !second_half;
  return second_half;
}

#endif
