#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a: token texts are a few bytes long. */
static uint32_t hash_text(const char *text, size_t n_bytes)
{
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < n_bytes; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
  return (uint32_t)(hash ^ hash >> 32);
}

static void insert_slot(yk_vocab *vocab, int32_t entry)
{
  uint32_t at = vocab->entries[entry].hash & vocab->slot_mask;
  while (vocab->slots[at] >= 0) at = (at + 1) & vocab->slot_mask;
  vocab->slots[at] = entry;
}

/* Reserves n entries, and slots that are at most half full. */
static yk_status reserve(yk_vocab *vocab, size_t n, yk_err *err)
{
  size_t n_slots = 64;
  while (n_slots < 2 * n) n_slots *= 2;
  yk_vocab_entry *entries = realloc(vocab->entries, n * sizeof *entries);
  if (entries) {
    vocab->entries = entries;
    vocab->entry_capacity = (int32_t)n;
  }
  int32_t *slots = malloc(n_slots * sizeof *slots);
  if (!entries || !slots) {
    free(slots);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a vocabulary of %zu tokens", n);
  }
  free(vocab->slots);
  vocab->slots = slots;
  vocab->slot_mask = (uint32_t)(n_slots - 1);
  memset(slots, 0xFF, n_slots * sizeof *slots);
  for (int32_t i = 0; i < vocab->n_entries; i++) insert_slot(vocab, i);
  return YK_OK;
}

/* Extends the table of ids up to id. */
static yk_status reserve_id(yk_vocab *vocab, int32_t id, yk_err *err)
{
  if (id >= vocab->id_capacity) {
    int32_t capacity = 1024;
    while (capacity <= id) capacity *= 2;
    int32_t *table = realloc(vocab->entry_of_id, (size_t)capacity * sizeof *table);
    if (!table) return yk_err_set(err, YK_E_NOMEM, "no memory for token ids up to %d", id);
    memset(table + vocab->id_capacity, 0xFF, (size_t)(capacity - vocab->id_capacity) * sizeof *table);
    vocab->entry_of_id = table;
    vocab->id_capacity = capacity;
  }
  if (id >= vocab->id_limit) vocab->id_limit = id + 1;
  return YK_OK;
}

yk_status yk_vocab_init(yk_vocab *vocab, size_t n_expected, yk_err *err)
{
  *vocab = (yk_vocab){0};
  if (n_expected > YK_VOCAB_MAX_ID)
    return yk_err_set(err, YK_E_FORMAT, "vocabulary: at most %d tokens expected, found %zu", YK_VOCAB_MAX_ID,
                      n_expected);
  yk_status status = reserve(vocab, n_expected + 1, err);
  if (status != YK_OK) yk_vocab_free(vocab);
  return status;
}

void yk_vocab_free(yk_vocab *vocab)
{
  yk_strbuf_free(&vocab->texts);
  free(vocab->entries);
  free(vocab->slots);
  free(vocab->entry_of_id);
  *vocab = (yk_vocab){0};
}

yk_status yk_vocab_add(yk_vocab *vocab, const char *text, size_t n_bytes, int64_t id, yk_err *err)
{
  int shown = n_bytes < 64 ? (int)n_bytes : 64;
  if (id < 0 || id > YK_VOCAB_MAX_ID)
    return yk_err_set(err, YK_E_FORMAT, "token \"%.*s\": expected an id from 0 to %d, found %lld", shown, text,
                      YK_VOCAB_MAX_ID, (long long)id);
  if (yk_vocab_find(vocab, text, n_bytes) >= 0)
    return yk_err_set(err, YK_E_FORMAT, "token \"%.*s\": expected once, found twice", shown, text);
  if (yk_vocab_entry_of(vocab, (int32_t)id) >= 0) {
    yk_vocab_entry other = vocab->entries[yk_vocab_entry_of(vocab, (int32_t)id)];
    return yk_err_set(err, YK_E_FORMAT, "id %lld is given to two tokens, \"%.*s\" and \"%.*s\"", (long long)id,
                      other.length < 64 ? (int)other.length : 64, vocab->texts.data + other.offset, shown, text);
  }
  if (n_bytes > UINT32_MAX - vocab->texts.length)
    return yk_err_set(err, YK_E_FORMAT, "vocabulary: more than 4 GiB of token texts");
  if (vocab->n_entries == vocab->entry_capacity) YK_TRY(reserve(vocab, 2 * (size_t)vocab->entry_capacity, err));
  YK_TRY(reserve_id(vocab, (int32_t)id, err));
  yk_vocab_entry entry = {(uint32_t)vocab->texts.length, (uint32_t)n_bytes, hash_text(text, n_bytes), (int32_t)id};
  yk_strbuf_append(&vocab->texts, text, n_bytes);
  if (vocab->texts.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for token texts");
  vocab->entries[vocab->n_entries] = entry;
  vocab->entry_of_id[id] = vocab->n_entries;
  insert_slot(vocab, vocab->n_entries++);
  return YK_OK;
}

int32_t yk_vocab_find(const yk_vocab *vocab, const char *text, size_t n_bytes)
{
  uint32_t hash = hash_text(text, n_bytes);
  for (uint32_t at = hash & vocab->slot_mask; vocab->slots[at] >= 0; at = (at + 1) & vocab->slot_mask) {
    const yk_vocab_entry *entry = &vocab->entries[vocab->slots[at]];
    if (entry->hash == hash && entry->length == n_bytes &&
        (n_bytes == 0 || memcmp(vocab->texts.data + entry->offset, text, n_bytes) == 0))
      return vocab->slots[at];
  }
  return -1;
}

int32_t yk_vocab_id(const yk_vocab *vocab, const char *text, size_t n_bytes)
{
  int32_t entry = yk_vocab_find(vocab, text, n_bytes);
  return entry < 0 ? -1 : vocab->entries[entry].id;
}

int32_t yk_vocab_entry_of(const yk_vocab *vocab, int32_t id)
{
  return id < 0 || id >= vocab->id_limit ? -1 : vocab->entry_of_id[id];
}

const char *yk_vocab_text(const yk_vocab *vocab, int32_t entry, size_t *n_bytes)
{
  *n_bytes = vocab->entries[entry].length;
  return vocab->texts.data + vocab->entries[entry].offset;
}
