/* kv_blocks.h - which physical KV blocks are in use, and which hold a prefix that another sequence can reuse.
 *
 * Block b means block b of every layer on every rank. A block is referenced by the sequences that read it; one that
 * nobody references is free, but keeps what it holds until it is taken, least recently used first, so that a later
 * sequence with the same beginning finds it.
 *
 * A full block is published under the key (chain of its predecessor, its own token ids). The chain number of a block is
 * unique to one content at one time, so equal keys mean equal tokens from the very start: a hash only finds candidates,
 * the ids are compared.
 *
 * What a block holds is sound once a row that sees all of it has given finite logits: a NaN or an infinity in K or V
 * would have reached them. A block that is not known to be sound when a sequence fails for such logits is withdrawn:
 * nobody finds it any more, and whoever still reads it must compute its tokens again. Owner and thread: the engine's.
 * No locks. */
#ifndef YK_ENGINE_LOOP_KV_BLOCKS_H
#define YK_ENGINE_LOOP_KV_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_kv_blocks yk_kv_blocks;

/* The chain of a published block; 0 is the empty beginning, as is what yk_kv_blocks_new_chain gives. */
typedef uint64_t yk_kv_chain;

yk_status yk_kv_blocks_create(int32_t n_blocks, yk_kv_blocks **out, yk_err *err);
void yk_kv_blocks_destroy(yk_kv_blocks *blocks);

/* yk_kv_blocks_free_count - blocks that nobody references, with or without reusable content. */
int32_t yk_kv_blocks_free_count(const yk_kv_blocks *blocks);

/* yk_kv_blocks_take - a free block with one reference, its old content forgotten; -1 when none is left. */
int32_t yk_kv_blocks_take(yk_kv_blocks *blocks);

/* yk_kv_blocks_share - one more reference to a block that has one already. */
void yk_kv_blocks_share(yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_release - drop one reference. */
void yk_kv_blocks_release(yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_publish - offer a referenced, full block for reuse. ids: its YK_KV_BLOCK_TOKENS tokens.
 *   Its K and V must be written before any later reader's attention: by this step or an earlier one.
 *   Returns the chain for its successor: the block's own, or that of an equal block published before. */
yk_kv_chain yk_kv_blocks_publish(yk_kv_blocks *blocks, int32_t block, yk_kv_chain previous, const int32_t *ids);

/* yk_kv_blocks_new_chain - an empty beginning of its own: what continues it is found by nobody who begins elsewhere. */
yk_kv_chain yk_kv_blocks_new_chain(yk_kv_blocks *blocks);

/* yk_kv_blocks_mark_sound - a row that sees the whole of this referenced block has given finite logits. */
void yk_kv_blocks_mark_sound(yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_withdraw - unless the referenced block is known to be sound: never offer it again, and remember that its
 *   readers must let go of it, until it is taken anew. */
void yk_kv_blocks_withdraw(yk_kv_blocks *blocks, int32_t block);
bool yk_kv_blocks_is_withdrawn(const yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_forget - offer nothing that is published for reuse any more; readers keep what they have. */
void yk_kv_blocks_forget(yk_kv_blocks *blocks);

/* yk_kv_blocks_find - the published block that continues previous with these ids, with one more reference; its chain in
 *   *chain. -1 where there is none. */
int32_t yk_kv_blocks_find(yk_kv_blocks *blocks, yk_kv_chain previous, const int32_t *ids, yk_kv_chain *chain);

#endif
