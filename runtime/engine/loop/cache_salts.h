/* cache_salts.h - where chains of KV blocks begin for requests that bring a salt.
 *
 * Sequences share blocks where they begin at one chain, so each salt has a chain of its own to begin at, given out
 * like those of blocks: no two salts ever share, whatever they are. Only so many salts are remembered: one that was
 * forgotten begins anew, and finds nothing of what it has computed before. Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_CACHE_SALTS_H
#define YK_ENGINE_LOOP_CACHE_SALTS_H

#include <stddef.h>

#include "engine/loop/kv_blocks.h"

enum { YK_CACHE_SALTS = 1024 }; /* that are remembered */

typedef struct yk_cache_salts {
  struct yk_cache_salt *salts; /* [YK_CACHE_SALTS], NULL until the first; zero at first */
  uint64_t n_uses;
} yk_cache_salts;

/* yk_cache_salts_start - the chain at which sequences of this salt begin. Without memory a chain that nobody else has:
 *   the sequence shares nothing then. */
yk_kv_chain yk_cache_salts_start(yk_cache_salts *salts, yk_kv_blocks *blocks, const char *salt, size_t n_bytes);

void yk_cache_salts_free(yk_cache_salts *salts);

#endif
