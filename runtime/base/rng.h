/* rng.h - counter-based random numbers: number = f(seed, stream, position), without state.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). CPU and CUDA samplers compute
 * the same function, so the same seed gives the same draw on every device, independent of other requests. */
#ifndef YK_BASE_RNG_H
#define YK_BASE_RNG_H

#include <stdint.h>

#ifdef __CUDACC__
#define YK_RNG_FN __host__ __device__ static inline
#else
#define YK_RNG_FN static inline
#endif

/* yk_philox - one 128-bit block: counter[4] and key[2] in, four random words out (counter is overwritten). */
YK_RNG_FN void yk_philox(uint32_t counter[4], uint32_t key0, uint32_t key1)
{
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * counter[0], b = (uint64_t)0xCD9E8D57u * counter[2];
    uint32_t c0 = (uint32_t)(b >> 32) ^ counter[1] ^ key0, c2 = (uint32_t)(a >> 32) ^ counter[3] ^ key1;
    counter[1] = (uint32_t)b;
    counter[3] = (uint32_t)a;
    counter[0] = c0;
    counter[2] = c2;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

/* yk_rng_uniform - a float in [0, 1) with 24 random bits.
 *   seed: of the request. stream: sample index within the request. position: position of the output token. */
YK_RNG_FN float yk_rng_uniform(uint64_t seed, uint32_t stream, uint32_t position)
{
  uint32_t counter[4] = {position, stream, 0, 0};
  yk_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
  return (float)(counter[0] >> 8) * (1.0f / 16777216.0f);
}

#endif
