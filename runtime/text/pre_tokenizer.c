#include "text/pre_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/byte_map.h"
#include "text/pre_tokenizer_step.h"

/* A range of a piece between two boundaries; delimiter: matches the pattern. */
typedef struct part {
  size_t begin, end;
  bool delimiter;
} part;

/* Scratch of a split, reused from piece to piece. */
typedef struct split_scratch {
  yk_spans matches;
  part *parts;
  size_t n_parts, part_capacity;
} split_scratch;

/* Lists the whole piece as matches and the ranges between them. False: no memory. */
static bool list_parts(split_scratch *scratch, size_t n_bytes, bool invert)
{
  size_t needed = 2 * scratch->matches.n + 1, at = 0, n = 0;
  if (needed > scratch->part_capacity) {
    part *parts = realloc(scratch->parts, 2 * needed * sizeof *parts);
    if (!parts) return false;
    scratch->parts = parts;
    scratch->part_capacity = 2 * needed;
  }
  for (size_t i = 0; i < scratch->matches.n; i++) {
    yk_span match = scratch->matches.items[i];
    if (at != match.begin) scratch->parts[n++] = (part){at, match.begin, invert};
    scratch->parts[n++] = (part){match.begin, match.end, !invert};
    at = match.end;
  }
  if (at != n_bytes) scratch->parts[n++] = (part){at, n_bytes, invert};
  scratch->n_parts = n;
  return true;
}

/* Joins parts in place by the behaviour. With MERGED_WITH_PREVIOUS the first delimiter of a run joins the part before
 * it; with CONTIGUOUS equal neighbours become one part. Returns the new number of parts. */
static size_t join_parts(part *parts, size_t n, yk_split_behavior behavior)
{
  size_t n_out = 0;
  bool previous_delimiter = false;
  for (size_t i = 0; i < n; i++) {
    bool delimiter = parts[i].delimiter;
    bool joins = behavior == YK_SPLIT_CONTIGUOUS ? delimiter == previous_delimiter : delimiter && !previous_delimiter;
    previous_delimiter = delimiter;
    if (joins && n_out > 0)
      parts[n_out - 1].end = parts[i].end;
    else
      parts[n_out++] = parts[i];
  }
  return n_out;
}

/* Joins the last delimiter of a run with the part after it. Keeps the parts at the end of the array and returns the
 * index of the first. */
static size_t join_parts_backwards(part *parts, size_t n)
{
  size_t first = n;
  bool previous_delimiter = false;
  for (size_t i = n; i-- > 0;) {
    bool delimiter = parts[i].delimiter, joins = delimiter && !previous_delimiter;
    previous_delimiter = delimiter;
    if (joins && first < n)
      parts[first].begin = parts[i].begin;
    else
      parts[--first] = parts[i];
  }
  return first;
}

static yk_status split_piece(const yk_pre_tokenizer_step *step, const char *text, yk_piece piece,
                             split_scratch *scratch, yk_pieces *out, yk_err *err)
{
  YK_TRY(yk_regex_find_all(step->pattern, text + piece.begin, piece.length, &scratch->matches, err));
  if (!list_parts(scratch, piece.length, step->invert))
    return yk_err_set(err, YK_E_NOMEM, "no memory to split a piece of %zu bytes", piece.length);
  size_t first = 0, n = scratch->n_parts;
  if (step->behavior == YK_SPLIT_MERGED_WITH_NEXT)
    first = join_parts_backwards(scratch->parts, n);
  else if (step->behavior == YK_SPLIT_MERGED_WITH_PREVIOUS || step->behavior == YK_SPLIT_CONTIGUOUS)
    n = join_parts(scratch->parts, n, step->behavior);
  for (size_t i = first; i < n; i++) {
    part kept = scratch->parts[i];
    if (step->behavior == YK_SPLIT_REMOVED && kept.delimiter) continue;
    yk_pieces_append(
        out, (yk_piece){piece.begin + kept.begin, kept.end - kept.begin, -1, piece.at_start && kept.begin == 0});
  }
  return YK_OK;
}

static yk_status split(const yk_pre_tokenizer_step *step, yk_pieces *in, yk_pieces *out, yk_err *err)
{
  split_scratch scratch = {0};
  yk_status status = YK_OK;
  for (size_t i = 0; i < in->n && status == YK_OK; i++) {
    if (in->items[i].id >= 0)
      yk_pieces_append(out, in->items[i]);
    else
      status = split_piece(step, in->text, in->items[i], &scratch, out, err);
  }
  free(scratch.matches.items);
  free(scratch.parts);
  yk_pieces_move_text(out, in);
  return status;
}

static void prefix_piece(const yk_metaspace *prefix, const char *text, size_t n_bytes, bool at_start, yk_strbuf *out)
{
  bool has_one = text[0] == ' ' || (n_bytes >= prefix->replacement_bytes &&
                                    memcmp(text, prefix->replacement, prefix->replacement_bytes) == 0);
  if (!has_one && (prefix->scheme == YK_PREPEND_ALWAYS || (prefix->scheme == YK_PREPEND_FIRST && at_start)))
    yk_strbuf_append(out, prefix->replacement, prefix->replacement_bytes);
  for (size_t at = 0; at < n_bytes;) {
    const char *space = memchr(text + at, ' ', n_bytes - at);
    size_t end = space ? (size_t)(space - text) : n_bytes;
    yk_strbuf_append(out, text + at, end - at);
    if (space) yk_strbuf_append(out, prefix->replacement, prefix->replacement_bytes);
    at = end + 1;
  }
}

static void byte_map_piece(const char *text, size_t n_bytes, yk_strbuf *out)
{
  enum { BLOCK = 256 };
  char mapped[2 * BLOCK];
  for (size_t at = 0; at < n_bytes;) {
    size_t n = 0;
    for (size_t end = n_bytes - at < BLOCK ? n_bytes : at + BLOCK; at < end; at++) {
      char character[YK_UTF8_MAX_BYTES];
      size_t length = yk_utf8_encode(yk_byte_map_char((unsigned char)text[at]), character);
      memcpy(mapped + n, character, length);
      n += length;
    }
    yk_strbuf_append(out, mapped, n);
  }
}

/* Rewrites every piece that is still text. Pieces that are tokens lose their text, which is not needed any more. */
static void rewrite(const yk_pre_tokenizer_step *step, const yk_pieces *in, yk_pieces *out)
{
  for (size_t i = 0; i < in->n; i++) {
    yk_piece piece = in->items[i];
    size_t begin = out->owned.length;
    if (piece.id < 0 && step->kind == YK_STEP_PREFIX)
      prefix_piece(&step->prefix, in->text + piece.begin, piece.length, piece.at_start, &out->owned);
    if (piece.id < 0 && step->kind == YK_STEP_BYTE_MAP)
      byte_map_piece(in->text + piece.begin, piece.length, &out->owned);
    piece.begin = begin;
    piece.length = out->owned.length - begin;
    yk_pieces_append(out, piece);
  }
  out->text = out->owned.data;
}

yk_status yk_pre_tokenizer_apply(const yk_pre_tokenizer *pre_tokenizer, yk_pieces *pieces, yk_pieces *spare,
                                 yk_err *err)
{
  for (size_t i = 0; i < pre_tokenizer->n_steps; i++) {
    const yk_pre_tokenizer_step *step = &pre_tokenizer->steps[i];
    yk_pieces_clear(spare);
    if (step->kind == YK_STEP_SPLIT)
      YK_TRY(split(step, pieces, spare, err));
    else
      rewrite(step, pieces, spare);
    yk_pieces swap = *pieces;
    *pieces = *spare;
    *spare = swap;
    if (pieces->failed || pieces->owned.failed) return yk_err_set(err, YK_E_NOMEM, "no memory to split the text");
  }
  return YK_OK;
}
