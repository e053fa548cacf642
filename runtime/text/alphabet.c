#include "text/alphabet.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { BLOCK = 256, N_BLOCKS = YK_CODE_POINT_END / BLOCK, MAX_SYMBOLS = 255 };

struct yk_alphabet {
  uint32_t example[MAX_SYMBOLS]; /* a code point of each symbol; YK_CODE_POINT_END: the symbol is unused */
  uint16_t block_of[N_BLOCKS];   /* code points to symbols in two stages */
  unsigned char (*blocks)[BLOCK];
  size_t n_blocks, block_capacity;
};

/* Ranges of code points that belong to the same sets; ends[i] is the end of range i. */
typedef struct stretches {
  uint32_t *ends;
  unsigned char *symbols;
  size_t n;
} stretches;

static int compare_code_points(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static bool list_stretches(const yk_code_set *sets, size_t n_sets, stretches *list)
{
  size_t n = 3, n_unique = 0;
  for (size_t i = 0; i < n_sets; i++) n += 2 * sets[i].n;
  list->ends = malloc(n * sizeof *list->ends);
  list->symbols = calloc(n, 1);
  if (!list->ends || !list->symbols) return false;
  n = 0;
  list->ends[n++] = '\n';
  list->ends[n++] = '\n' + 1;
  list->ends[n++] = YK_CODE_POINT_END;
  for (size_t i = 0; i < n_sets; i++)
    for (size_t k = 0; k < sets[i].n; k++) {
      list->ends[n++] = sets[i].ranges[k].first;
      list->ends[n++] = sets[i].ranges[k].last + 1;
    }
  qsort(list->ends, n, sizeof *list->ends, compare_code_points);
  for (size_t i = 0; i < n; i++)
    if (list->ends[i] != 0 && (n_unique == 0 || list->ends[i] != list->ends[n_unique - 1]))
      list->ends[n_unique++] = list->ends[i];
  list->n = n_unique;
  return true;
}

/* Gives the ranges inside the set a new symbol wherever they share one with ranges outside. Returns false if there are
 * not enough symbols. */
static bool separate(const yk_code_set *set, stretches *list, int *n_symbols)
{
  bool used_outside[MAX_SYMBOLS] = {0};
  int symbol_inside[MAX_SYMBOLS];
  for (int inside = 0; inside < 2; inside++) {
    uint32_t begin = 0;
    for (size_t i = 0, k = 0; i < list->n; begin = list->ends[i++]) {
      while (k < set->n && set->ranges[k].last < begin) k++;
      if ((k < set->n && set->ranges[k].first <= begin) != inside) continue;
      int symbol = list->symbols[i];
      if (!inside) {
        used_outside[symbol] = true;
        symbol_inside[symbol] = -1;
      } else if (used_outside[symbol]) {
        if (symbol_inside[symbol] < 0) {
          if (*n_symbols == MAX_SYMBOLS) return false;
          symbol_inside[symbol] = (*n_symbols)++;
        }
        list->symbols[i] = (unsigned char)symbol_inside[symbol];
      }
    }
  }
  return true;
}

/* Assigns '\n' to the line feed, so that ^, $ and . work by lines; the other symbols may have any value. */
static void place_line_feed(stretches *list)
{
  size_t i = 0;
  while (list->ends[i] <= '\n') i++;
  unsigned char found = list->symbols[i];
  for (i = 0; i < list->n; i++) {
    if (list->symbols[i] == found)
      list->symbols[i] = '\n';
    else if (list->symbols[i] == '\n')
      list->symbols[i] = found;
  }
}

/* Appends a block. Only blocks of one symbol are shared. Returns its index, -1 without memory. */
static int add_block(yk_alphabet *alphabet, const unsigned char *block)
{
  if (alphabet->n_blocks == alphabet->block_capacity) {
    size_t capacity = alphabet->block_capacity ? 2 * alphabet->block_capacity : 16;
    unsigned char(*blocks)[BLOCK] = realloc(alphabet->blocks, capacity * sizeof *blocks);
    if (!blocks) return -1;
    alphabet->blocks = blocks;
    alphabet->block_capacity = capacity;
  }
  memcpy(alphabet->blocks[alphabet->n_blocks], block, BLOCK);
  return (int)alphabet->n_blocks++;
}

static bool fill_blocks(yk_alphabet *alphabet, const stretches *list)
{
  int uniform[MAX_SYMBOLS]; /* block that holds only this symbol, -1 if there is none */
  for (size_t i = 0; i < sizeof uniform / sizeof *uniform; i++) uniform[i] = -1;
  size_t at = 0;
  for (uint32_t b = 0; b < N_BLOCKS; b++) {
    unsigned char block[BLOCK], only = list->symbols[at];
    bool is_uniform = list->ends[at] >= (b + 1) * BLOCK;
    int number = is_uniform ? uniform[only] : -1;
    if (number < 0) {
      for (uint32_t i = 0; i < BLOCK; i++) {
        while (list->ends[at] <= b * BLOCK + i) at++;
        block[i] = list->symbols[at];
      }
      number = add_block(alphabet, block);
      if (number < 0) return false;
      if (is_uniform) uniform[only] = number;
    }
    alphabet->block_of[b] = (uint16_t)number;
    while (at < list->n && list->ends[at] <= (b + 1) * BLOCK) at++;
  }
  return true;
}

static yk_status create(yk_alphabet *alphabet, const char *name, const yk_code_set *sets, size_t n_sets,
                        stretches *list, yk_err *err)
{
  yk_code_range line_feed = {'\n', '\n'};
  yk_code_set lines = {.ranges = &line_feed, .n = 1};
  int n_symbols = 1;
  if (!list_stretches(sets, n_sets, list)) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pattern", name);
  bool enough = separate(&lines, list, &n_symbols);
  for (size_t i = 0; i < n_sets && enough; i++) enough = separate(&sets[i], list, &n_symbols);
  if (!enough)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: pattern: distinguishes more than %d kinds of characters", name,
                      (int)MAX_SYMBOLS);
  place_line_feed(list);
  for (int symbol = 0; symbol < MAX_SYMBOLS; symbol++) alphabet->example[symbol] = YK_CODE_POINT_END;
  for (size_t i = list->n; i-- > 0;) alphabet->example[list->symbols[i]] = i > 0 ? list->ends[i - 1] : 0;
  if (!fill_blocks(alphabet, list)) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pattern", name);
  return YK_OK;
}

yk_status yk_alphabet_create(const char *name, const yk_code_set *sets, size_t n, yk_alphabet **out, yk_err *err)
{
  stretches list = {0};
  yk_alphabet *alphabet = calloc(1, sizeof *alphabet);
  if (!alphabet) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pattern", name);
  yk_status status = create(alphabet, name, sets, n, &list, err);
  free(list.ends);
  free(list.symbols);
  if (status == YK_OK)
    *out = alphabet;
  else
    yk_alphabet_free(alphabet);
  return status;
}

void yk_alphabet_free(yk_alphabet *alphabet)
{
  if (!alphabet) return;
  free(alphabet->blocks);
  free(alphabet);
}

void yk_alphabet_append_set(const yk_alphabet *alphabet, const yk_code_set *set, yk_strbuf *out)
{
  bool member[MAX_SYMBOLS + 1] = {false};
  for (int symbol = 0; symbol < MAX_SYMBOLS; symbol++)
    member[symbol] = yk_code_ranges_hold(set->ranges, set->n, alphabet->example[symbol]);
  size_t before = out->length;
  yk_strbuf_append_str(out, "[");
  for (unsigned begin = 0, end; begin < MAX_SYMBOLS; begin = end + 1) {
    for (end = begin; member[end];) end++;
    if (end > begin) yk_strbuf_append_fmt(out, end > begin + 1 ? "\\x%02X-\\x%02X" : "\\x%02X", begin, end - 1);
  }
  bool is_empty = out->length == before + 1;
  yk_strbuf_append_str(out, is_empty ? "^\\x00-\\xFF]" : "]");
}

size_t yk_alphabet_write(const yk_alphabet *alphabet, const char *text, size_t n_bytes, unsigned char *symbols)
{
  const unsigned char *ascii = alphabet->blocks[alphabet->block_of[0]];
  size_t n = 0;
  for (size_t at = 0; at < n_bytes;) {
    unsigned char lead = (unsigned char)text[at];
    if (lead < 0x80) {
      symbols[n++] = ascii[lead];
      at++;
      continue;
    }
    uint32_t code_point;
    at += yk_utf8_decode(text + at, n_bytes - at, &code_point);
    symbols[n++] = alphabet->blocks[alphabet->block_of[code_point / BLOCK]][code_point % BLOCK];
  }
  return n;
}
