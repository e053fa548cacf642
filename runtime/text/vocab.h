/* vocab.h - token texts and their ids, both ways. Built once, then read-only and safe to share between threads. */
#ifndef YK_TEXT_VOCAB_H
#define YK_TEXT_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

/* The largest public vocabularies have under 300 thousand ids; a table has an entry for every id, so ids are
 * bounded. */
enum { YK_VOCAB_MAX_ID = (1 << 22) - 1 };

typedef struct yk_vocab_entry {
  uint32_t offset, length; /* of its text, in bytes */
  uint32_t hash;
  int32_t id;
} yk_vocab_entry;

typedef struct yk_vocab {
  yk_strbuf texts;         /* all texts, one after another */
  yk_vocab_entry *entries; /* in order of insertion */
  int32_t n_entries, entry_capacity;
  int32_t *slots; /* open addressing by hash of text -> entry, -1: empty */
  uint32_t slot_mask;
  int32_t *entry_of_id;          /* [id_limit], -1: no token has the id */
  int32_t id_limit, id_capacity; /* largest id + 1; capacity of entry_of_id */
} yk_vocab;

/* yk_vocab_init - an empty vocabulary with capacity for n_expected tokens. After YK_E_NOMEM the caller frees
 * nothing. */
yk_status yk_vocab_init(yk_vocab *vocab, size_t n_expected, yk_err *err);
void yk_vocab_free(yk_vocab *vocab);

/* yk_vocab_add - text must be new and id unused and within [0, YK_VOCAB_MAX_ID]; else YK_E_FORMAT naming both. */
yk_status yk_vocab_add(yk_vocab *vocab, const char *text, size_t n_bytes, int64_t id, yk_err *err);

/* yk_vocab_find - the entry of a text (its index in entries), or -1. */
int32_t yk_vocab_find(const yk_vocab *vocab, const char *text, size_t n_bytes);

/* yk_vocab_id - the id of a text, or -1. */
int32_t yk_vocab_id(const yk_vocab *vocab, const char *text, size_t n_bytes);

/* yk_vocab_entry_of - the entry of an id, or -1. Any id is valid input. */
int32_t yk_vocab_entry_of(const yk_vocab *vocab, int32_t id);

/* yk_vocab_text - text of an entry; lives as long as the vocabulary; not NUL-terminated. */
const char *yk_vocab_text(const yk_vocab *vocab, int32_t entry, size_t *n_bytes);

#endif
