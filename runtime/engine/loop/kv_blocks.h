/* kv_blocks.h - the KV blocks in use, and the blocks whose prefix another sequence can reuse.
 *
 * Block b means block b of every layer on every rank. Sequences that read a block hold references to it. A block
 * without references is free, but keeps its content until the block is taken, least recently used first, so that a
 * later sequence with the same beginning finds the content.
 *
 * A full block is published under the key (chain of its predecessor, its own token ids). The chain number of a block is
 * unique to one content at one time, so equal keys mean equal tokens from the very start. A hash only finds candidates;
 * the ids are compared.
 *
 * The content of a block is sound once a row that reads the whole block has produced finite logits: a NaN or an
 * infinity in K or V would have reached these logits. If a sequence fails because of its logits, its blocks that are
 * not known to be sound are withdrawn: no sequence finds a withdrawn block any more, and its remaining readers must
 * compute their tokens again. Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_KV_BLOCKS_H
#define YK_ENGINE_LOOP_KV_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct yk_kv_blocks yk_kv_blocks;

/* The chain number of a published block. 0 is the empty beginning; yk_kv_blocks_new_chain returns other empty
 * beginnings. */
typedef uint64_t yk_kv_chain;

/* yk_kv_blocks_create - n_blocks blocks, all free. Errors: YK_E_NOMEM. */
yk_status yk_kv_blocks_create(int32_t n_blocks, yk_kv_blocks **out, yk_err *err);
void yk_kv_blocks_destroy(yk_kv_blocks *blocks);

/* yk_kv_blocks_on_unpublish - set the function that is called, with the block's chain, whenever a published block is no
 *   longer offered. May be called once. */
void yk_kv_blocks_on_unpublish(yk_kv_blocks *blocks, void (*unpublished)(void *context, yk_kv_chain chain),
                               void *context);

/* yk_kv_blocks_free_count - blocks without references, with or without reusable content. */
int32_t yk_kv_blocks_free_count(const yk_kv_blocks *blocks);

/* yk_kv_blocks_take - a free block with one reference, its old content forgotten; -1 if none is free. */
int32_t yk_kv_blocks_take(yk_kv_blocks *blocks);

/* yk_kv_blocks_share - add a reference to a block that has at least one. */
void yk_kv_blocks_share(yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_release - drop one reference. */
void yk_kv_blocks_release(yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_publish - offer a referenced, full block for reuse. ids: its YK_KV_BLOCK_TOKENS tokens.
 *   Its K and V must be written before any later reader's attention: by this step or an earlier one.
 *   Returns the chain for the block's successor: the block's own chain, or the chain of an equal block published
 *   before. *holder: before the call the published block with chain `previous`, or -1; afterwards the one with the
 *   chain returned. */
yk_kv_chain yk_kv_blocks_publish(yk_kv_blocks *blocks, int32_t block, yk_kv_chain previous, const int32_t *ids,
                                 int32_t *holder);

/* yk_kv_blocks_is_continued - whether a block has been published after this published block. */
bool yk_kv_blocks_is_continued(const yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_new_chain - a new empty beginning: only sequences with this beginning find blocks published after it. */
yk_kv_chain yk_kv_blocks_new_chain(yk_kv_blocks *blocks);

/* yk_kv_blocks_mark_sound - a row that reads the whole of this referenced block has produced finite logits. */
void yk_kv_blocks_mark_sound(yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_withdraw - unless the referenced block is known to be sound, never offer the block again, and mark it
 *   withdrawn until it is taken anew. Its readers must release the block. */
void yk_kv_blocks_withdraw(yk_kv_blocks *blocks, int32_t block);
bool yk_kv_blocks_is_withdrawn(const yk_kv_blocks *blocks, int32_t block);

/* yk_kv_blocks_forget - stop offering all published blocks for reuse; readers keep their blocks. */
void yk_kv_blocks_forget(yk_kv_blocks *blocks);

/* yk_kv_blocks_find - the published block with these ids after chain `previous`, with one more reference; its chain in
 *   *chain. -1 if there is none. */
int32_t yk_kv_blocks_find(yk_kv_blocks *blocks, yk_kv_chain previous, const int32_t *ids, yk_kv_chain *chain);

#endif
