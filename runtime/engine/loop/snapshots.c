#include "engine/loop/snapshots.h"

#include <stdlib.h>

enum { NONE = -1 };

typedef struct snapshot {
  yk_kv_chain chain;   /* 0: the entry is free */
  int32_t bucket_next; /* next entry of the same bucket, or of the list of free entries */
  uint64_t owner;
  uint64_t saved_in, used_in; /* steps */
  bool is_sound;
} snapshot;

struct yk_snapshots {
  snapshot *entries;  /* [n_entries] */
  int32_t *buckets;   /* [n_buckets] first entry of each bucket */
  uint32_t n_buckets; /* a power of two */
  int32_t first_free;
  uint64_t step; /* the one being planned */
  yk_snapshot_counts counts;
};

yk_status yk_snapshots_create(int32_t n_entries, yk_snapshots **out, yk_err *err)
{
  yk_snapshots *s = calloc(1, sizeof *s);
  uint32_t n_buckets = 1;
  while (n_buckets < (uint32_t)n_entries) n_buckets *= 2;
  if (s) {
    s->entries = calloc(n_entries > 0 ? (size_t)n_entries : 1, sizeof *s->entries);
    s->buckets = malloc(n_buckets * sizeof *s->buckets);
  }
  if (!s || !s->entries || !s->buckets) {
    yk_snapshots_destroy(s);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a table of %d snapshots", n_entries);
  }
  s->n_buckets = n_buckets;
  s->counts.n_entries = n_entries;
  s->step = 1;
  s->first_free = n_entries > 0 ? 0 : NONE;
  for (uint32_t i = 0; i < n_buckets; i++) s->buckets[i] = NONE;
  for (int32_t i = 0; i < n_entries; i++) s->entries[i].bucket_next = i + 1 < n_entries ? i + 1 : NONE;
  *out = s;
  return YK_OK;
}

void yk_snapshots_destroy(yk_snapshots *snapshots)
{
  if (!snapshots) return;
  free(snapshots->entries);
  free(snapshots->buckets);
  free(snapshots);
}

void yk_snapshots_begin_step(yk_snapshots *snapshots)
{
  snapshots->step++;
}

/* Chains are numbered in order of creation, so their low bits spread over the buckets. */
static int32_t *bucket_of(const yk_snapshots *s, yk_kv_chain chain)
{
  return &s->buckets[(uint32_t)chain & (s->n_buckets - 1)];
}

static void drop(yk_snapshots *s, int32_t i)
{
  snapshot *it = &s->entries[i];
  int32_t *link = bucket_of(s, it->chain);
  while (*link != i) link = &s->entries[*link].bucket_next;
  *link = it->bucket_next;
  *it = (snapshot){.bucket_next = s->first_free, .used_in = it->used_in};
  s->first_free = i;
  s->counts.n_used--;
}

/* Free entries that this step loads are not taken either: a snapshot may have been dropped since. */
static int32_t take_free(yk_snapshots *s)
{
  int32_t *link = &s->first_free;
  while (*link != NONE && s->entries[*link].used_in == s->step) link = &s->entries[*link].bucket_next;
  int32_t i = *link;
  if (i != NONE) *link = s->entries[i].bucket_next;
  return i;
}

static int32_t least_recently_used(const yk_snapshots *s)
{
  int32_t oldest = NONE;
  for (int32_t i = 0; i < s->counts.n_entries; i++) {
    const snapshot *it = &s->entries[i];
    if (!it->chain || it->used_in == s->step) continue;
    if (oldest == NONE || it->used_in < s->entries[oldest].used_in) oldest = i;
  }
  return oldest;
}

int32_t yk_snapshots_save(yk_snapshots *snapshots, yk_kv_chain chain, uint64_t owner)
{
  int32_t i = yk_snapshots_find(snapshots, chain);
  if (i != NONE) {
    snapshots->entries[i].used_in = snapshots->step;
    return NONE;
  }
  i = take_free(snapshots);
  if (i == NONE) {
    int32_t victim = least_recently_used(snapshots);
    if (victim == NONE) return NONE;
    drop(snapshots, victim);
    snapshots->counts.evicted++;
    i = take_free(snapshots);
  }
  int32_t *bucket = bucket_of(snapshots, chain);
  snapshots->entries[i] = (snapshot){
      .chain = chain, .bucket_next = *bucket, .owner = owner, .saved_in = snapshots->step, .used_in = snapshots->step};
  *bucket = i;
  snapshots->counts.n_used++;
  snapshots->counts.saved++;
  return i;
}

int32_t yk_snapshots_find(const yk_snapshots *snapshots, yk_kv_chain chain)
{
  int32_t i = *bucket_of(snapshots, chain);
  while (i != NONE && snapshots->entries[i].chain != chain) i = snapshots->entries[i].bucket_next;
  return i;
}

bool yk_snapshots_is_coming(const yk_snapshots *snapshots, int32_t entry)
{
  return snapshots->entries[entry].saved_in == snapshots->step;
}

bool yk_snapshots_load(yk_snapshots *snapshots, int32_t entry)
{
  snapshots->entries[entry].used_in = snapshots->step;
  return snapshots->entries[entry].is_sound;
}

void yk_snapshots_mark_sound(yk_snapshots *snapshots, uint64_t owner)
{
  for (int32_t i = 0; i < snapshots->counts.n_entries; i++) {
    snapshot *it = &snapshots->entries[i];
    if (it->chain && it->owner == owner) it->is_sound = true;
  }
}

void yk_snapshots_drop_unsound(yk_snapshots *snapshots)
{
  for (int32_t i = 0; i < snapshots->counts.n_entries; i++)
    if (snapshots->entries[i].chain && !snapshots->entries[i].is_sound) drop(snapshots, i);
}

void yk_snapshots_drop(yk_snapshots *snapshots, yk_kv_chain chain)
{
  int32_t i = yk_snapshots_find(snapshots, chain);
  if (i == NONE) return;
  drop(snapshots, i);
  snapshots->counts.evicted++;
}

yk_snapshot_counts yk_snapshots_count(const yk_snapshots *snapshots)
{
  return snapshots->counts;
}
