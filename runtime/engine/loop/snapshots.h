/* snapshots.h - snapshots of recurrent states in tables on the devices, from which other sequences continue.
 *
 * Entry e means row e of the table of snapshots of every layer with states, on every rank. A snapshot holds the states
 * after the tokens of a chain of published KV blocks, and is found by the chain number of the last block (kv_blocks.h).
 * A step loads entries before the first row of a sequence, and saves entries after one of its rows. Ranks run steps in
 * the order of planning: an entry that a step saves may be loaded by the next step planned, and an entry that a step
 * loads may be saved again by the next step. Within one step neither is possible, so both are refused here.
 *
 * If no entry is free, the one used least recently is overwritten. A snapshot is sound once logits have been finite
 * after it. Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_SNAPSHOTS_H
#define YK_ENGINE_LOOP_SNAPSHOTS_H

#include <stdbool.h>

#include "engine/loop/kv_blocks.h"

typedef struct yk_snapshots yk_snapshots;

typedef struct yk_snapshot_counts {
  int32_t n_entries, n_used;
  uint64_t saved, evicted; /* evicted: overwritten by a later snapshot, or dropped with its KV block */
} yk_snapshot_counts;

/* yk_snapshots_create - n_entries may be 0: nothing is saved. Errors: YK_E_NOMEM. */
yk_status yk_snapshots_create(int32_t n_entries, yk_snapshots **out, yk_err *err);
void yk_snapshots_destroy(yk_snapshots *snapshots);

/* yk_snapshots_begin_step - another step is planned from here on. */
void yk_snapshots_begin_step(yk_snapshots *snapshots);

/* yk_snapshots_save - an entry in which the step being planned saves the states at the end of this chain. owner: a
 *   number of the sequence, for yk_snapshots_mark_sound. -1: the chain has a snapshot already, or this step uses every
 *   entry. */
int32_t yk_snapshots_save(yk_snapshots *snapshots, yk_kv_chain chain, uint64_t owner);

/* yk_snapshots_find - the entry of a chain's snapshot, or -1. */
int32_t yk_snapshots_find(const yk_snapshots *snapshots, yk_kv_chain chain);

/* yk_snapshots_is_coming - whether the step being planned saves this entry, so that only the next step may load it. */
bool yk_snapshots_is_coming(const yk_snapshots *snapshots, int32_t entry);

/* yk_snapshots_load - the step being planned loads this entry, which is not coming. Returns whether it is sound. */
bool yk_snapshots_load(yk_snapshots *snapshots, int32_t entry);

/* yk_snapshots_mark_sound - logits after the owner's last snapshot were finite. */
void yk_snapshots_mark_sound(yk_snapshots *snapshots, uint64_t owner);

/* yk_snapshots_drop_unsound - drop all snapshots that are not known to be sound. */
void yk_snapshots_drop_unsound(yk_snapshots *snapshots);

/* yk_snapshots_drop - drop the snapshot of a chain, if there is one: its KV block is no longer published. */
void yk_snapshots_drop(yk_snapshots *snapshots, yk_kv_chain chain);

/* yk_snapshots_count - figures since the snapshots were created. */
yk_snapshot_counts yk_snapshots_count(const yk_snapshots *snapshots);

#endif
