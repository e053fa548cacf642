/* int4_words.c - repack the integers of a slice from any packing to AWQ's order: split into tiles for threads, and a
 * tile into blocks that read and write whole cache lines. */
#include "loader/integers/int4_packing.h"
#include "loader/integers/int4_slice.h"

enum { MIN_THREAD_BYTES = 1 << 17 /* bytes of words per thread: less work costs more than it saves */ };

/* Swap nibble j of word i with nibble i of word j, for all words of a block's line at once. The loop over words can be
 * vectorised. */
static inline void swap_nibbles(uint32_t *restrict a, uint32_t *restrict b, int shift, uint32_t mask)
{
  for (int word = 0; word < YK_INT4_BLOCK_WORDS; word++) yk_int4_swap(&a[word], &b[word], shift, mask);
}

static inline void transpose_nibbles(uint32_t w[8][YK_INT4_BLOCK_WORDS])
{
  for (int i = 0; i < 4; i++) swap_nibbles(w[i], w[i + 4], 16, 0x0000FFFFu);
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) swap_nibbles(w[i + j], w[i + j + 2], 8, 0x00FF00FFu);
  for (int i = 0; i < 8; i += 2) swap_nibbles(w[i], w[i + 1], 4, 0x0F0F0F0Fu);
}

/* Destination of the rows of the repacked weight: in the order of inputs, or at the position of each input. */
typedef struct destination {
  uint32_t *words;
  int64_t row_words, first_k;
  const int32_t *places; /* -1: the input belongs to another rank; NULL: all inputs in order, from first_k on */
} destination;

/* State shared by the threads that repack one slice. An item of work is a tile of the checkpoint's words. */
typedef struct repacking {
  const yk_weight_view *weight;
  const yk_int4_extent *e;
  destination to;
  int64_t tile_lines, tile_words, n_tiles_k; /* n_tiles_k: tiles along the lines, the faster index */
} repacking;

/* Copy lines of words that are already in AWQ's order. */
static void copy_lines(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const repacking *r = context;
  const yk_int4_extent *e = r->e;
  int64_t row_words = r->to.row_words, end_k = yk_min_i64(r->weight->k, (e->first_line + end) * YK_INT4_LINE_K);
  for (int64_t k = (e->first_line + begin) * YK_INT4_LINE_K; k < end_k; k++)
    memcpy(r->to.words + (k - e->first_k) * row_words,
           (const char *)r->weight->qweight + (k * r->weight->n + e->first_n) / 2, (size_t)row_words * 4);
}

static inline int64_t row_of(const destination *to, int64_t input)
{
  return to->places ? to->places[input] : input - to->first_k;
}

/* word: the first word of the repacked weight that the block writes. */
static void repack_block(const yk_weight_view *weight, const yk_int4_block *block, const destination *to, int64_t word)
{
  yk_int4_lines in;
  yk_int4_ops_of(weight->packing)->read(weight, block, in);
  for (int i = 0; i < block->n_lines; i++) {
    transpose_nibbles(in[i]);
    for (int r = 0; r < YK_INT4_LINE_K; r++) {
      int64_t row = row_of(to, (block->line + i) * YK_INT4_LINE_K + r);
      if (row < 0) continue;
      uint32_t *words = to->words + row * to->row_words + word;
      __builtin_prefetch(words + 2 * YK_INT4_BLOCK_WORDS - 1, 1);
      if (block->n_words == YK_INT4_BLOCK_WORDS)
        memcpy(words, in[i][r], YK_INT4_BLOCK_WORDS * 4); /* constant size, so that the compiler inlines the copy */
      else
        memcpy(words, in[i][r], (size_t)block->n_words * 4);
    }
  }
}

static bool is_wanted(const destination *to, int64_t line, int64_t n_lines)
{
  bool wanted = !to->places;
  for (int64_t input = line * YK_INT4_LINE_K; !wanted && input < (line + n_lines) * YK_INT4_LINE_K; input++)
    wanted = to->places[input] >= 0;
  return wanted;
}

/* Repack lines [line, line_end) by words [first_word, word_end) of the repacked weight. */
static void repack_tile(const repacking *r, int64_t line, int64_t line_end, int64_t first_word, int64_t word_end)
{
  int64_t step = yk_int4_ops_of(r->weight->packing)->n_lines;
  for (int64_t n_lines; line < line_end; line += n_lines) {
    n_lines = yk_min_i64(step, line_end - line);
    if (!is_wanted(&r->to, line, n_lines)) continue;
    for (int64_t word = first_word; word < word_end; word += YK_INT4_BLOCK_WORDS) {
      const yk_int4_block block = {.line = line,
                                   .word = r->e->first_n / 8 + word,
                                   .n_lines = (int)n_lines,
                                   .n_words = (int)yk_min_i64(YK_INT4_BLOCK_WORDS, word_end - word),
                                   .outputs = r->e->outputs,
                                   .n_outputs = r->e->n_there};
      repack_block(r->weight, &block, &r->to, word);
    }
  }
}

static void repack_tiles(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const repacking *r = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t line = i % r->n_tiles_k * r->tile_lines, word = i / r->n_tiles_k * r->tile_words;
    repack_tile(r, r->e->first_line + line, r->e->first_line + yk_min_i64(line + r->tile_lines, r->e->n_lines), word,
                yk_min_i64(word + r->tile_words, r->to.row_words));
  }
}

/* If a line of all outputs is a row of the file, a tile is one line. If outputs are rows, a tile has TILE_WORDS words
 * of eight outputs, and few enough lines that the data prefetched for each row is still cached when the next lines are
 * read. */
static void repack_words(repacking *r, yk_cpu_pool *pool)
{
  enum { TILE_WORDS = 64, TILE_LINES = 128 };
  bool has_row_lines = yk_int4_ops_of(r->weight->packing)->n_lines == 1;
  r->tile_lines = has_row_lines ? 1 : TILE_LINES;
  r->tile_words = has_row_lines ? r->to.row_words : TILE_WORDS;
  r->n_tiles_k = yk_ceil_div_i64(r->e->n_lines, r->tile_lines);
  int64_t tile_bytes = r->tile_lines * YK_INT4_LINE_K * r->tile_words * 4;
  yk_cpu_pool_deal(pool, r->n_tiles_k * yk_ceil_div_i64(r->to.row_words, r->tile_words),
                   yk_ceil_div_i64(MIN_THREAD_BYTES, tile_bytes), repack_tiles, r);
}

/* Find the position of each of the checkpoint's inputs, and zero the rows of positions without an input. */
static void find_places(const yk_int4_extent *e, uint32_t *words, int32_t *places)
{
  int64_t row_words = e->n / 8;
  memset(places, 0xFF, (size_t)(e->n_lines * YK_INT4_LINE_K) * sizeof *places); /* -1 */
  for (int64_t place = 0; place < e->k; place++)
    if (e->order->inputs[place] >= 0)
      places[e->order->inputs[place]] = (int32_t)place;
    else
      memset(words + place * row_words, 0, (size_t)row_words * 4);
}

void yk_int4_take_words(const yk_weight_view *weight, const yk_int4_extent *e, yk_cpu_pool *pool, char *buffer)
{
  repacking r = {.weight = weight, .e = e};
  r.to = (destination){.words = (uint32_t *)(void *)buffer, .row_words = e->n / 8, .first_k = e->first_k};
  if (weight->packing == YK_PACKING_AWQ_GEMM && !e->order && !e->outputs) {
    yk_cpu_pool_deal(pool, e->n_lines, yk_ceil_div_i64(MIN_THREAD_BYTES, r.to.row_words * YK_INT4_LINE_K * 4),
                     copy_lines, &r);
    return;
  }
  int32_t *places = (int32_t *)(void *)(buffer + e->places_at);
  if (e->order) find_places(e, r.to.words, places);
  if (e->order) r.to.places = places;
  repack_words(&r, pool);
}
