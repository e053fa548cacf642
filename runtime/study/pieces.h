/* pieces.h - the pieces of a token's time on several rank counts, and their fits: the arithmetic of predict.h. */
#ifndef YK_STUDY_PIECES_H
#define YK_STUDY_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#include "study/split.h"

enum { YK_PIECES_MAX = 64 };

/* Seconds a token of output on so many ranks, mean over the ranks. */
typedef struct yk_pieces {
  int ranks;
  double split_s[YK_SPLIT_PARTS]; /* each part that ranks share: products and attention */
  double transfer_s, wait_s, rest_s;
  double machine_transfer_s; /* of the point's all-reduces by the machine's own figures; negative: not known */
  bool is_machine_measured;  /* they were measured on so many ranks, rather than follow from a link's rate */
} yk_pieces;

/* yk_pieces_fit - complete *fitted, whose ranks and machine figures are set, from the pieces of n other rank counts,
 *   1 to YK_PIECES_MAX, as predict.h says. Thread: any. */
void yk_pieces_fit(const yk_split *split, const yk_pieces *measured, size_t n, yk_pieces *fitted);

/* yk_pieces_total - seconds a token. */
double yk_pieces_total(const yk_pieces *pieces);

#endif
