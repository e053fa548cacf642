/* pieces.h - the pieces of a token's time on several rank counts, and their fits: the computations of predict.h. */
#ifndef YK_STUDY_PIECES_H
#define YK_STUDY_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#include "study/split.h"

enum { YK_PIECES_MAX = 64 };

/* Seconds per output token on a number of ranks, mean over the ranks. */
typedef struct yk_pieces {
  int ranks;
  double split_s[YK_SPLIT_PARTS]; /* each part that is split over ranks: products and attention */
  double transfer_s, wait_s, rest_s;
  double machine_transfer_s; /* the point's all-reduces by the machine's own figures; negative: unknown */
  bool is_machine_measured;  /* measured on this number of ranks, not derived from a link's rate */
} yk_pieces;

/* yk_pieces_fit - complete *fitted, whose ranks and machine figures are set, from the pieces of n other rank counts, 1
 *   to YK_PIECES_MAX, as described in predict.h. Thread: any. */
void yk_pieces_fit(const yk_split *split, const yk_pieces *measured, size_t n, yk_pieces *fitted);

/* yk_pieces_total - seconds for a token. */
double yk_pieces_total(const yk_pieces *pieces);

#endif
