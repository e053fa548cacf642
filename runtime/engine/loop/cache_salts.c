#include "engine/loop/cache_salts.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

typedef struct yk_cache_salt {
  uint32_t hash;
  char *text; /* [n_bytes], owned; NULL: the entry is free */
  size_t n_bytes;
  uint64_t adapter_id;
  yk_kv_chain start;
  uint64_t last_use;
} yk_cache_salt;

/* The entry of the salt, or an entry to replace: a free one, else the least recently used. */
static yk_cache_salt *find(yk_cache_salts *salts, uint32_t hash, const yk_salt *salt)
{
  yk_cache_salt *place = &salts->salts[0];
  for (yk_cache_salt *s = salts->salts; s < salts->salts + YK_CACHE_SALTS; s++) {
    if (s->text && s->hash == hash && s->adapter_id == salt->adapter_id && s->n_bytes == salt->n_bytes &&
        (salt->n_bytes == 0 || memcmp(s->text, salt->text, salt->n_bytes) == 0))
      return s;
    if (s->last_use < place->last_use) place = s; /* 0: free */
  }
  free(place->text);
  *place = (yk_cache_salt){0};
  return place;
}

yk_kv_chain yk_cache_salts_start(yk_cache_salts *salts, yk_kv_blocks *blocks, const yk_salt *salt)
{
  const size_t n_bytes = salt->n_bytes;
  uint32_t hash = yk_hash(yk_hash(YK_HASH_START, &salt->adapter_id, sizeof salt->adapter_id), salt->text, n_bytes);
  if (!salts->salts) salts->salts = calloc(YK_CACHE_SALTS, sizeof *salts->salts);
  if (!salts->salts) return yk_kv_blocks_new_chain(blocks);
  yk_cache_salt *s = find(salts, hash, salt);
  if (!s->text) {
    yk_kv_chain start = yk_kv_blocks_new_chain(blocks);
    char *text = malloc(n_bytes + 1);
    if (!text) return start;
    if (n_bytes > 0) memcpy(text, salt->text, n_bytes);
    *s =
        (yk_cache_salt){.hash = hash, .text = text, .n_bytes = n_bytes, .adapter_id = salt->adapter_id, .start = start};
  }
  s->last_use = ++salts->n_uses;
  return s->start;
}

void yk_cache_salts_free(yk_cache_salts *salts)
{
  for (size_t i = 0; salts->salts && i < YK_CACHE_SALTS; i++) free(salts->salts[i].text);
  free(salts->salts);
  *salts = (yk_cache_salts){0};
}
