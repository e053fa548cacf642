/* id_bits.h - sets of token ids as bits, as the masks of kernels/device.h have them: bit id % 32 of word id / 32. */
#ifndef YK_GRAMMAR_ID_BITS_H
#define YK_GRAMMAR_ID_BITS_H

#include <stdbool.h>
#include <stdint.h>

static inline bool yk_id_bits_have(const uint32_t *words, int32_t id)
{
  return words[id / 32] >> id % 32 & 1;
}

static inline void yk_id_bits_add(uint32_t *words, int32_t id)
{
  words[id / 32] |= UINT32_C(1) << id % 32;
}

static inline void yk_id_bits_remove(uint32_t *words, int32_t id)
{
  words[id / 32] &= ~(UINT32_C(1) << id % 32);
}

#endif
