/* conformance_case.h - a body that the conformance suite runs on every rank at once, its inputs and its findings. */
#ifndef TESTS_COMM_CONFORMANCE_CASE_H
#define TESTS_COMM_CONFORMANCE_CASE_H

#include "comm/conformance.h"

/* Inputs of ranks: a prime number of elements, repeated, so that a shift by a row or a packet changes values. */
enum { PERIOD = 65521, RESIDUAL = COMM_TESTED_RANKS, WEIGHT, N_SOURCES };

typedef struct values {
  yk_dtype dtype;
  float rounded[N_SOURCES][PERIOD]; /* inputs of each rank, then the shared ones, rounded to dtype */
  char stored[N_SOURCES][PERIOD * sizeof(float)];
} values;

/* Checks run on rank threads, where cmocka may not fail: checks count failures, and the test asserts on the counts. */
typedef struct rank_case {
  const comm_fixture *fixture;
  const values *values;
  yk_comm *comm;
  yk_dtype dtype;
  int32_t n_rows, hidden;
  double tolerance; /* of a sum, relative to the sum of its parts' magnitudes */
  int mismatches;   /* elements outside tolerance */
  yk_status status;
  void *result; /* host copy, to compare ranks bit for bit */
  size_t result_bytes;
  bool misbehave; /* this rank takes no part, and may abort later */
  int misbehaving_rank;
} rank_case;

typedef void (*rank_body)(rank_case *c);

/* Numbers representable in dtype, drawn from a seed; malloc'ed. */
values *case_values_new(yk_dtype dtype);

/* Element i of a source, and n of its elements on the rank's device, which frees them. */
double case_value(const rank_case *c, int source, size_t i);
void *case_array(rank_case *c, int source, size_t n);

/* Relative rounding error of the type: half the distance to the next number. */
double case_rounding_step(yk_dtype dtype);

/* The sum of element i over all ranks, and of its magnitudes. */
double case_sum(const rank_case *c, size_t i, double *magnitude);

/* Copy a device's array to c->result, whose elements are then compared within the tolerance times a magnitude. */
void case_keep_result(rank_case *c, const void *array, size_t bytes);
void case_expect_close(rank_case *c, size_t i, double expected, double magnitude);

/* The creation of arrays takes a different time on every rank and must not count against a time limit. */
void case_barrier(rank_case *c);

/* Operations, each against float64 (conformance_operations.c). */
void all_reduce_body(rank_case *c);
void integer_sums_body(rank_case *c);
void integer_maxima_body(rank_case *c);
void tree_body(rank_case *c);
void all_reduce_add_norm_body(rank_case *c);
void result_norm_body(rank_case *c);
void combining_all_reduce_body(rank_case *c);
void combining_with_gain_body(rank_case *c);
void gather_body(rank_case *c);
void await_writes_body(rank_case *c);
void open_memories_body(rank_case *c);
void gather_host_body(rank_case *c);
void embedding_body(rank_case *c);
void chain_body(rank_case *c);
void stages_body(rank_case *c);

/* One rank is absent or aborts: the others return YK_E_COMM (conformance_breaking.c). */
void abort_body(rank_case *c);
void abort_sum_body(rank_case *c);
void missing_body(rank_case *c);

#endif
