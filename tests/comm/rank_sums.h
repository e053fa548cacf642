/* rank_sums.h - sums over ranks whose bits show the order of additions. */
#ifndef TESTS_COMM_RANK_SUMS_H
#define TESTS_COMM_RANK_SUMS_H

#include "parallel/comm.h"

enum { RANK_SUM_ROWS = 40, RANK_SUM_HIDDEN = 96, RANK_SUM_ELEMENTS = RANK_SUM_ROWS * RANK_SUM_HIDDEN };

/* A rank's data before and after its sums. */
typedef struct rank_sum {
  yk_comm *comm;
  int32_t n_rows; /* at most RANK_SUM_ROWS */
  yk_status status;
  float partial[RANK_SUM_ELEMENTS], residual[RANK_SUM_ELEMENTS], y[RANK_SUM_ELEMENTS], w[RANK_SUM_HIDDEN];
  int32_t gathered[2 * YK_MAX_RANKS], largest[8];
} rank_sum;

/* rank_sums_run - fill the data of ranks first .. first + n - 1, run every kind of sum and gathering, each rank in its
 *   thread. ranks, comms [n]: of these ranks. Asserts that every operation succeeds. */
void rank_sums_run(rank_sum *ranks, int first, int n, yk_comm **comms, int32_t n_rows);

/* rank_sums_equal - whether results have the same bits. */
bool rank_sums_equal(const rank_sum *a, const rank_sum *b);

#endif
