#include "engine/loop/kv_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"

enum { NONE = -1 };

typedef struct kv_block {
  int32_t n_refs;
  bool is_sound, is_withdrawn; /* reset when the block is taken */
  bool is_continued;           /* reset when the block is published */
  int32_t newer, older;        /* neighbours in the list of free blocks, while n_refs is 0 */
  int32_t bucket_next;         /* next block of the same hash bucket, while published */
  yk_kv_chain chain;           /* 0: not published */
  yk_kv_chain previous;
  int32_t ids[YK_KV_BLOCK_TOKENS];
} kv_block;

struct yk_kv_blocks {
  int32_t n_blocks, n_free;
  int32_t oldest, newest; /* ends of the list of free blocks: blocks are taken from the oldest end */
  yk_kv_chain last_chain; /* chains are numbered in order of creation */
  kv_block *blocks;       /* [n_blocks] */
  int32_t *buckets;       /* [n_buckets] first published block of each bucket */
  uint32_t n_buckets;     /* a power of two */
  void (*unpublished)(void *context, yk_kv_chain chain); /* or NULL */
  void *context;
};

static void add_newest(yk_kv_blocks *b, int32_t i)
{
  b->blocks[i].older = b->newest;
  b->blocks[i].newer = NONE;
  *(b->newest == NONE ? &b->oldest : &b->blocks[b->newest].newer) = i;
  b->newest = i;
  b->n_free++;
}

/* Blocks that can never be found again are taken first. */
static void add_oldest(yk_kv_blocks *b, int32_t i)
{
  b->blocks[i].newer = b->oldest;
  b->blocks[i].older = NONE;
  *(b->oldest == NONE ? &b->newest : &b->blocks[b->oldest].older) = i;
  b->oldest = i;
  b->n_free++;
}

static void remove_free(yk_kv_blocks *b, int32_t i)
{
  kv_block *it = &b->blocks[i];
  *(it->older == NONE ? &b->oldest : &b->blocks[it->older].newer) = it->newer;
  *(it->newer == NONE ? &b->newest : &b->blocks[it->newer].older) = it->older;
  b->n_free--;
}

yk_status yk_kv_blocks_create(int32_t n_blocks, yk_kv_blocks **out, yk_err *err)
{
  yk_kv_blocks *b = calloc(1, sizeof *b);
  uint32_t n_buckets = 1;
  while (n_buckets < (uint32_t)n_blocks) n_buckets *= 2;
  if (b) {
    b->blocks = calloc(n_blocks > 0 ? (size_t)n_blocks : 1, sizeof *b->blocks);
    b->buckets = malloc(n_buckets * sizeof *b->buckets);
  }
  if (!b || !b->blocks || !b->buckets) {
    yk_kv_blocks_destroy(b);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a table of %d KV blocks", n_blocks);
  }
  b->n_blocks = n_blocks;
  b->n_buckets = n_buckets;
  b->oldest = b->newest = NONE;
  for (uint32_t i = 0; i < n_buckets; i++) b->buckets[i] = NONE;
  for (int32_t i = 0; i < n_blocks; i++) add_newest(b, i);
  *out = b;
  return YK_OK;
}

void yk_kv_blocks_destroy(yk_kv_blocks *blocks)
{
  if (!blocks) return;
  free(blocks->blocks);
  free(blocks->buckets);
  free(blocks);
}

void yk_kv_blocks_on_unpublish(yk_kv_blocks *blocks, void (*unpublished)(void *context, yk_kv_chain chain),
                               void *context)
{
  blocks->unpublished = unpublished;
  blocks->context = context;
}

int32_t yk_kv_blocks_free_count(const yk_kv_blocks *blocks)
{
  return blocks->n_free;
}

/* FNV-1a over the key. Any hash works, since candidates are compared. */
static uint32_t bucket_of(const yk_kv_blocks *b, yk_kv_chain previous, const int32_t *ids)
{
  uint64_t hash = (UINT64_C(0xCBF29CE484222325) ^ previous) * UINT64_C(0x100000001B3);
  for (int i = 0; i < YK_KV_BLOCK_TOKENS; i++) hash = (hash ^ (uint32_t)ids[i]) * UINT64_C(0x100000001B3);
  return (uint32_t)(hash >> 32 ^ hash) & (b->n_buckets - 1);
}

static int32_t look_up(const yk_kv_blocks *b, uint32_t bucket, yk_kv_chain previous, const int32_t *ids)
{
  for (int32_t i = b->buckets[bucket]; i != NONE; i = b->blocks[i].bucket_next)
    if (b->blocks[i].previous == previous && memcmp(b->blocks[i].ids, ids, sizeof b->blocks[i].ids) == 0) return i;
  return NONE;
}

static void unpublish(yk_kv_blocks *b, int32_t i)
{
  kv_block *it = &b->blocks[i];
  if (!it->chain) return;
  int32_t *link = &b->buckets[bucket_of(b, it->previous, it->ids)];
  while (*link != i) link = &b->blocks[*link].bucket_next;
  *link = it->bucket_next;
  if (b->unpublished) b->unpublished(b->context, it->chain);
  it->chain = 0;
}

int32_t yk_kv_blocks_take(yk_kv_blocks *blocks)
{
  int32_t i = blocks->oldest;
  if (i == NONE) return NONE;
  remove_free(blocks, i);
  unpublish(blocks, i);
  blocks->blocks[i].n_refs = 1;
  blocks->blocks[i].is_sound = blocks->blocks[i].is_withdrawn = false;
  return i;
}

void yk_kv_blocks_share(yk_kv_blocks *blocks, int32_t block)
{
  blocks->blocks[block].n_refs++;
}

void yk_kv_blocks_release(yk_kv_blocks *blocks, int32_t block)
{
  if (--blocks->blocks[block].n_refs > 0) return;
  if (blocks->blocks[block].chain)
    add_newest(blocks, block);
  else
    add_oldest(blocks, block);
}

yk_kv_chain yk_kv_blocks_publish(yk_kv_blocks *blocks, int32_t block, yk_kv_chain previous, const int32_t *ids,
                                 int32_t *holder)
{
  kv_block *it = &blocks->blocks[block];
  uint32_t bucket = bucket_of(blocks, previous, ids);
  int32_t equal = look_up(blocks, bucket, previous, ids);
  if (*holder != NONE && blocks->blocks[*holder].chain == previous) blocks->blocks[*holder].is_continued = true;
  *holder = equal != NONE ? equal : block;
  if (equal != NONE) return blocks->blocks[equal].chain;
  it->is_continued = false;
  it->chain = ++blocks->last_chain;
  it->previous = previous;
  memcpy(it->ids, ids, sizeof it->ids);
  it->bucket_next = blocks->buckets[bucket];
  blocks->buckets[bucket] = block;
  return it->chain;
}

bool yk_kv_blocks_is_continued(const yk_kv_blocks *blocks, int32_t block)
{
  return blocks->blocks[block].is_continued;
}

yk_kv_chain yk_kv_blocks_new_chain(yk_kv_blocks *blocks)
{
  return ++blocks->last_chain;
}

void yk_kv_blocks_mark_sound(yk_kv_blocks *blocks, int32_t block)
{
  blocks->blocks[block].is_sound = true;
}

void yk_kv_blocks_withdraw(yk_kv_blocks *blocks, int32_t block)
{
  if (blocks->blocks[block].is_sound) return;
  unpublish(blocks, block);
  blocks->blocks[block].is_withdrawn = true;
}

bool yk_kv_blocks_is_withdrawn(const yk_kv_blocks *blocks, int32_t block)
{
  return blocks->blocks[block].is_withdrawn;
}

void yk_kv_blocks_forget(yk_kv_blocks *blocks)
{
  for (int32_t i = 0; i < blocks->n_blocks; i++) unpublish(blocks, i);
}

int32_t yk_kv_blocks_find(yk_kv_blocks *blocks, yk_kv_chain previous, const int32_t *ids, yk_kv_chain *chain)
{
  int32_t i = look_up(blocks, bucket_of(blocks, previous, ids), previous, ids);
  if (i == NONE) return NONE;
  if (blocks->blocks[i].n_refs++ == 0) remove_free(blocks, i);
  *chain = blocks->blocks[i].chain;
  return i;
}
