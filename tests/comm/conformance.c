#include "comm/conformance.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "parallel/shard.h"

/* What ranks bring: a prime number of elements, repeated, so that what lies a row or a packet too far differs. */
enum { PERIOD = 65521, RESIDUAL = YK_MAX_RANKS, WEIGHT, N_SOURCES };

typedef struct values {
  yk_dtype dtype;
  float rounded[N_SOURCES][PERIOD]; /* of each rank, then of what is alike on all: as dtype holds them */
  char stored[N_SOURCES][PERIOD * sizeof(float)];
} values;

/* Checks run on rank threads, where cmocka may not fail: they count, and the test asserts on the counts. */
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
  bool misbehave; /* this rank takes no part, and may later abort */
  int misbehaving_rank;
} rank_case;

typedef void (*rank_body)(rank_case *c);

static values *values_new(yk_dtype dtype)
{
  values *v = malloc(sizeof *v);
  assert_non_null(v);
  v->dtype = dtype;
  for (uint32_t source = 0; source < N_SOURCES; source++)
    for (uint32_t i = 0; i < PERIOD; i++) {
      yk_dtype_store(dtype, v->stored[source], i, yk_rng_uniform(7, source, i) * 4 - 2);
      v->rounded[source][i] = yk_dtype_load(dtype, v->stored[source], i);
    }
  return v;
}

static double value_of(const rank_case *c, int source, size_t i)
{
  return c->values->rounded[source][i % PERIOD];
}

static double rounding_step(yk_dtype dtype)
{
  return dtype == YK_F16 ? 0x1p-11 : dtype == YK_BF16 ? 0x1p-8 : 0x1p-22;
}

static void *device_array(rank_case *c, int source, size_t n)
{
  yk_device *dev = c->comm->dev;
  size_t bytes = n * yk_dtype_bytes(c->dtype), period = PERIOD * yk_dtype_bytes(c->dtype);
  void *array = NULL;
  char *host = malloc(bytes);
  for (size_t at = 0; at < bytes; at += period)
    memcpy(host + at, c->values->stored[source], bytes - at < period ? bytes - at : period);
  if (dev->ops->alloc(dev, bytes, &array, NULL) != YK_OK || dev->ops->upload(dev, array, host, bytes, NULL) != YK_OK)
    c->mismatches++;
  free(host);
  return array;
}

static void keep_result(rank_case *c, const void *array, size_t bytes)
{
  c->result = malloc(bytes);
  c->result_bytes = bytes;
  if (c->comm->dev->ops->download(c->comm->dev, c->result, array, bytes, NULL) != YK_OK) c->mismatches++;
}

static void expect_close(rank_case *c, size_t i, double expected, double magnitude)
{
  double found = yk_dtype_load(c->dtype, c->result, i);
  if (!(fabs(found - expected) <= c->tolerance * magnitude)) c->mismatches++;
}

static double sum_over_ranks(const rank_case *c, size_t i, double *magnitude)
{
  double sum = 0;
  *magnitude = 0;
  for (int rank = 0; rank < c->comm->n_ranks; rank++) {
    double value = value_of(c, rank, i);
    sum += value;
    *magnitude += fabs(value);
  }
  return sum;
}

/* Making arrays takes a different time on every rank, which a time limit is not to count. */
static void meet(rank_case *c)
{
  if (c->comm->ops->barrier(c->comm, NULL) != YK_OK) c->mismatches++;
}

static void all_reduce_body(rank_case *c)
{
  size_t n = (size_t)c->n_rows * (size_t)c->hidden;
  void *data = device_array(c, c->comm->rank, n);
  meet(c);
  c->status = c->comm->ops->all_reduce(c->comm, data, (int64_t)n, c->dtype, NULL);
  keep_result(c, data, n * yk_dtype_bytes(c->dtype));
  for (size_t i = 0; i < n; i++) {
    double magnitude, expected = sum_over_ranks(c, i, &magnitude);
    expect_close(c, i, expected, magnitude);
  }
  c->comm->dev->ops->free(c->comm->dev, data);
}

/* Element i of a rank: of either sign, and such that float32 could not hold the sums. */
static int32_t integer_of(int rank, size_t i)
{
  return (int32_t)(((uint32_t)i * 40503u + (uint32_t)rank * 977u) % 200000001u) - 100000000;
}

static int32_t reduced_integer(const rank_case *c, size_t i, yk_reduction reduction)
{
  int32_t result = integer_of(0, i);
  for (int rank = 1; rank < c->comm->n_ranks; rank++) {
    int32_t value = integer_of(rank, i);
    result = reduction == YK_REDUCE_SUM ? result + value : value > result ? value : result;
  }
  return result;
}

static void reduce_integers(rank_case *c, yk_reduction reduction)
{
  yk_device *dev = c->comm->dev;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * sizeof(int32_t);
  void *data = NULL;
  int32_t *host = malloc(bytes);
  for (size_t i = 0; i < n; i++) host[i] = integer_of(c->comm->rank, i);
  if (dev->ops->alloc(dev, bytes, &data, NULL) != YK_OK || dev->ops->upload(dev, data, host, bytes, NULL) != YK_OK)
    c->mismatches++;
  meet(c);
  c->status = c->comm->ops->all_reduce_i32(c->comm, data, (int64_t)n, reduction, NULL);
  if (dev->ops->download(dev, host, data, bytes, NULL) != YK_OK) c->mismatches++;
  for (size_t i = 0; i < n; i++) c->mismatches += host[i] != reduced_integer(c, i, reduction);
  free(host);
  dev->ops->free(dev, data);
}

static void integer_sums_body(rank_case *c)
{
  reduce_integers(c, YK_REDUCE_SUM);
}

static void integer_maxima_body(rank_case *c)
{
  reduce_integers(c, YK_REDUCE_MAX);
}

/* The norm is of the residual as stored. */
static void check_norm(rank_case *c, const char *normed, size_t row, double eps)
{
  size_t hidden = (size_t)c->hidden;
  double squares = 0;
  for (size_t i = 0; i < hidden; i++) {
    double x = yk_dtype_load(c->dtype, c->result, row * hidden + i);
    squares += x * x;
  }
  double scale = 1 / sqrt(squares / (double)hidden + eps);
  for (size_t i = 0; i < hidden; i++) {
    double expected = yk_dtype_load(c->dtype, c->result, row * hidden + i) * scale * value_of(c, WEIGHT, i);
    double found = yk_dtype_load(c->dtype, normed, row * hidden + i);
    if (!(fabs(found - expected) <= 3 * rounding_step(c->dtype) * fabs(expected) + 1e-6)) c->mismatches++;
  }
}

static void all_reduce_add_norm_body(rank_case *c)
{
  const float alpha = 0.5f, eps = 1e-5f;
  yk_device *dev = c->comm->dev;
  size_t hidden = (size_t)c->hidden, n = (size_t)c->n_rows * hidden, bytes = n * yk_dtype_bytes(c->dtype);
  void *partial = device_array(c, c->comm->rank, n), *residual = device_array(c, RESIDUAL, n);
  void *w = device_array(c, WEIGHT, hidden), *y = device_array(c, WEIGHT, n);
  yk_all_reduce_add_norm_args args = {partial, residual, y, w, c->n_rows, c->hidden, alpha, eps};
  meet(c);
  c->status = c->comm->ops->all_reduce_add_norm(c->comm, &args, NULL);
  keep_result(c, residual, bytes);
  for (size_t i = 0; i < n; i++) {
    double magnitude, sum = sum_over_ranks(c, i, &magnitude), before = value_of(c, RESIDUAL, i);
    expect_close(c, i, before + alpha * sum, fabs(before) + alpha * magnitude);
  }
  char *normed = malloc(bytes);
  if (dev->ops->download(dev, normed, y, bytes, NULL) != YK_OK) c->mismatches++;
  for (size_t row = 0; row < (size_t)c->n_rows; row++) check_norm(c, normed, row, eps);
  free(normed);
  void *const arrays[] = {partial, residual, w, y};
  for (int i = 0; i < 4; i++) dev->ops->free(dev, arrays[i]);
}

static void gather_body(rank_case *c)
{
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * yk_dtype_bytes(c->dtype);
  int n_ranks = c->comm->n_ranks;
  void *data = device_array(c, c->comm->rank, n * (size_t)n_ranks);
  c->status = c->comm->ops->gather(c->comm, data, (int64_t)bytes, NULL);
  if (c->comm->rank == 0) {
    char *all = malloc(bytes * (size_t)n_ranks);
    if (c->comm->dev->ops->download(c->comm->dev, all, data, bytes * (size_t)n_ranks, NULL) != YK_OK) c->mismatches++;
    for (int rank = 0; rank < n_ranks; rank++)
      for (size_t i = 0; i < n; i++)
        if (yk_dtype_load(c->dtype, all, (size_t)rank * n + i) != value_of(c, rank, i)) c->mismatches++;
    free(all);
  }
  c->comm->dev->ops->free(c->comm->dev, data);
}

static void broadcast_body(rank_case *c)
{
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * yk_dtype_bytes(c->dtype);
  void *data = device_array(c, c->comm->rank, n);
  c->status = c->comm->ops->broadcast(c->comm, data, (int64_t)bytes, NULL);
  keep_result(c, data, bytes);
  for (size_t i = 0; i < n; i++)
    if (yk_dtype_load(c->dtype, c->result, i) != value_of(c, 0, i)) c->mismatches++;
  c->comm->dev->ops->free(c->comm->dev, data);
}

static void abort_body(rank_case *c)
{
  if (c->misbehave) {
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* let the others wait for us first */
    c->comm->ops->abort(c->comm);
    c->comm->ops->abort(c->comm);
  }
  c->status = c->comm->ops->barrier(c->comm, NULL);
  if (c->comm->ops->barrier(c->comm, NULL) == YK_OK) c->mismatches++; /* it stays aborted */
}

/* ---- An embedding that is cut over the ranks ---- */

enum { VOCAB = 131, VOCAB_UNIT = 8 };

static int32_t token_of_row(int32_t row)
{
  return (row * 37 + VOCAB - 1) % VOCAB;
}

/* Element i of the whole table: minus zeros among others. */
static float table_value(const rank_case *c, size_t i)
{
  return i % 7 == 0 ? -0.0f : c->values->rounded[RESIDUAL][i % PERIOD];
}

/* The rows of the rank's ids, and the ids that are asked for. */
static void *make_table(rank_case *c, yk_range ids)
{
  yk_device *dev = c->comm->dev;
  size_t first = (size_t)(ids.begin * c->hidden), n = (size_t)(yk_range_size(ids) * c->hidden);
  void *table = NULL;
  char *host = malloc(n * yk_dtype_bytes(c->dtype) + 1);
  for (size_t i = 0; i < n; i++) yk_dtype_store(c->dtype, host, i, table_value(c, first + i));
  if (dev->ops->alloc(dev, n * yk_dtype_bytes(c->dtype), &table, NULL) != YK_OK ||
      dev->ops->upload(dev, table, host, n * yk_dtype_bytes(c->dtype), NULL) != YK_OK)
    c->mismatches++;
  free(host);
  return table;
}

static void *make_ids(rank_case *c)
{
  yk_device *dev = c->comm->dev;
  size_t n_bytes = (size_t)c->n_rows * sizeof(int32_t);
  void *ids = NULL;
  int32_t *host = malloc(n_bytes);
  for (int32_t row = 0; row < c->n_rows; row++) host[row] = token_of_row(row);
  if (dev->ops->alloc(dev, n_bytes, &ids, NULL) != YK_OK || dev->ops->upload(dev, ids, host, n_bytes, NULL) != YK_OK)
    c->mismatches++;
  free(host);
  return ids;
}

/* Bit for bit as one table gives it, but that a zero is plus zero. */
static void check_embedding(rank_case *c, float scale)
{
  size_t hidden = (size_t)c->hidden, bytes = yk_dtype_bytes(c->dtype);
  for (size_t i = 0; i < (size_t)c->n_rows * hidden; i++) {
    float expected[1], value = table_value(c, (size_t)token_of_row((int32_t)(i / hidden)) * hidden + i % hidden);
    yk_dtype_store(c->dtype, expected, 0, value == 0 ? 0 : value * scale);
    if (memcmp((char *)c->result + i * bytes, expected, bytes) != 0) c->mismatches++;
  }
}

/* Partial and residual hold something else before. */
static void embedding_body(rank_case *c)
{
  yk_device *dev = c->comm->dev;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden;
  yk_range shard = yk_shard_range(VOCAB, VOCAB_UNIT, c->comm->rank, c->comm->n_ranks);
  void *table = make_table(c, shard), *ids = make_ids(c), *w = device_array(c, WEIGHT, (size_t)c->hidden);
  void *partial = device_array(c, c->comm->rank, n), *residual = device_array(c, RESIDUAL, n);
  void *y = device_array(c, WEIGHT, n);
  yk_embed_args embed = {.y = partial,
                         .cleared = residual,
                         .table = table,
                         .token_ids = ids,
                         .first_id = (int32_t)shard.begin,
                         .n_ids = (int32_t)yk_range_size(shard),
                         .n_tokens = c->n_rows,
                         .hidden = c->hidden,
                         .scale = 0.3f};
  yk_all_reduce_add_norm_args sum = {partial, residual, y, w, c->n_rows, c->hidden, 1, 1e-5f};
  meet(c);
  c->status = dev->ops->embed(dev, &embed, NULL);
  if (c->status == YK_OK) c->status = c->comm->ops->all_reduce_add_norm(c->comm, &sum, NULL);
  keep_result(c, residual, n * yk_dtype_bytes(c->dtype));
  check_embedding(c, embed.scale);
  void *const arrays[] = {table, ids, w, partial, residual, y};
  for (int i = 0; i < 6; i++) dev->ops->free(dev, arrays[i]);
}

/* ---- Sums in a row, one by one and recorded ---- */

enum { N_CHAIN = 6, N_REPLAYS = 3 };

/* Of the sums of a chain; the case's own number of rows is the most. */
static int32_t chain_rows(const rank_case *c, int i)
{
  static const int32_t rows[N_CHAIN] = {1, 40, 5, 1, 300, 1100};
  return rows[i] < c->n_rows ? rows[i] : c->n_rows;
}

typedef struct chain {
  void *source, *partial, *residual, *y, *w, *row_numbers;
} chain;

/* partial, which a sum may overwrite, is copied anew before each. */
static yk_status run_chain(rank_case *c, const chain *a)
{
  yk_device *dev = c->comm->dev;
  for (int i = 0; i < N_CHAIN; i++) {
    int32_t n_rows = chain_rows(c, i);
    yk_gather_rows_args copy = {a->partial, a->source, a->row_numbers, n_rows, c->hidden};
    yk_all_reduce_add_norm_args sum = {a->partial, a->residual, a->y, a->w, n_rows, c->hidden, 1, 1e-5f};
    YK_TRY(dev->ops->gather_rows(dev, &copy, NULL));
    YK_TRY(c->comm->ops->all_reduce_add_norm(c->comm, &sum, NULL));
  }
  return YK_OK;
}

static yk_status replay_chain(rank_case *c, const chain *a)
{
  yk_device *dev = c->comm->dev;
  yk_graph *graph = NULL;
  YK_TRY(dev->ops->graph_begin(dev, NULL));
  yk_status status = run_chain(c, a), ended = dev->ops->graph_end(dev, status == YK_OK ? &graph : NULL, NULL);
  for (int i = 0; i < N_REPLAYS && status == YK_OK && ended == YK_OK; i++)
    status = dev->ops->graph_run(dev, graph, NULL);
  if (graph) dev->ops->graph_destroy(dev, graph);
  return status == YK_OK ? ended : status;
}

/* Small whole numbers, which every type adds up exactly: rank 0 brings twos, the others ones. */
static void make_chain(rank_case *c, chain *a)
{
  yk_device *dev = c->comm->dev;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * yk_dtype_bytes(c->dtype);
  size_t number_bytes = (size_t)c->n_rows * sizeof(int32_t);
  int32_t *numbers = malloc(number_bytes);
  void **const arrays[] = {&a->source, &a->partial, &a->residual, &a->y, &a->w};
  char *host = malloc(bytes);
  for (size_t i = 0; i < n; i++) yk_dtype_store(c->dtype, host, i, c->comm->rank == 0 ? 2 : 1);
  for (int32_t i = 0; i < c->n_rows; i++) numbers[i] = i;
  for (int i = 0; i < 5; i++)
    if (dev->ops->alloc(dev, bytes, arrays[i], NULL) != YK_OK) c->mismatches++;
  if (dev->ops->alloc(dev, number_bytes, &a->row_numbers, NULL) != YK_OK ||
      dev->ops->upload(dev, a->row_numbers, numbers, number_bytes, NULL) != YK_OK ||
      dev->ops->upload(dev, a->source, host, bytes, NULL) != YK_OK)
    c->mismatches++;
  free(numbers);
  free(host);
}

static void chain_body(rank_case *c)
{
  chain a = {0};
  yk_device *dev = c->comm->dev;
  make_chain(c, &a);
  meet(c);
  int n_runs = 1 + (dev->ops->graph_begin ? N_REPLAYS : 0);
  c->status = run_chain(c, &a);
  if (c->status == YK_OK && dev->ops->graph_begin) c->status = replay_chain(c, &a);
  size_t hidden = (size_t)c->hidden;
  keep_result(c, a.residual, (size_t)c->n_rows * hidden * yk_dtype_bytes(c->dtype));
  for (int32_t row = 0; row < c->n_rows; row++) {
    int n_sums = 0;
    for (int i = 0; i < N_CHAIN; i++) n_sums += row < chain_rows(c, i);
    for (size_t column = 0; column < hidden; column++)
      if (yk_dtype_load(c->dtype, c->result, (size_t)row * hidden + column) !=
          (float)(n_runs * n_sums * (c->comm->n_ranks + 1)))
        c->mismatches++;
  }
  void *const arrays[] = {a.source, a.partial, a.residual, a.y, a.w, a.row_numbers};
  for (int i = 0; i < 6; i++) dev->ops->free(dev, arrays[i]);
}

/* ---- Ranks that do not come ---- */

/* What a sum needs: partial, residual, y, w. */
static void make_sum(rank_case *c, yk_all_reduce_add_norm_args *args)
{
  size_t hidden = (size_t)c->hidden, n = (size_t)c->n_rows * hidden;
  *args = (yk_all_reduce_add_norm_args){.partial = device_array(c, c->comm->rank, n),
                                        .residual = device_array(c, 1, n),
                                        .y = device_array(c, 2, n),
                                        .w = device_array(c, 3, hidden),
                                        .n_rows = c->n_rows,
                                        .hidden = c->hidden,
                                        .alpha = 1,
                                        .eps = 1e-5f};
}

static void free_sum(rank_case *c, const yk_all_reduce_add_norm_args *args)
{
  yk_device *dev = c->comm->dev;
  void *const arrays[] = {args->partial, args->residual, args->y, (void *)(uintptr_t)args->w};
  for (int i = 0; i < 4; i++) dev->ops->free(dev, arrays[i]);
}

static yk_status sum_and_wait(rank_case *c, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  YK_TRY(c->comm->ops->all_reduce_add_norm(c->comm, args, err));
  return c->comm->dev->ops->sync(c->comm->dev, err);
}

/* Aborted while a device waits for the rank that does not come. */
static void abort_sum_body(rank_case *c)
{
  yk_all_reduce_add_norm_args args;
  make_sum(c, &args);
  meet(c);
  if (c->misbehave) {
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    c->comm->ops->abort(c->comm);
  }
  c->status = sum_and_wait(c, &args, NULL);
  if (sum_and_wait(c, &args, NULL) == YK_OK) c->mismatches++; /* it stays aborted */
  if (c->comm->dev->ops->settle) c->comm->dev->ops->settle(c->comm->dev);
  free_sum(c, &args);
}

/* Every other rank says who did not come, in time. */
static void missing_body(rank_case *c)
{
  yk_all_reduce_add_norm_args args;
  yk_err err = YK_ERR_INIT;
  char name[16];
  make_sum(c, &args);
  meet(c);
  c->status = YK_E_COMM;
  if (!c->misbehave) {
    int64_t start_ns = yk_clock_now_ns();
    c->status = sum_and_wait(c, &args, &err);
    double waited_s = yk_clock_seconds_since(start_ns);
    snprintf(name, sizeof name, "for rank %d", c->misbehaving_rank);
    if (err.rank != c->misbehaving_rank || !strstr(err.message, name) || waited_s > c->fixture->step_limit_s) {
      printf("rank %d: expected \"%s\", found rank %d, \"%s\", after %.3f s\n", c->comm->rank, name, err.rank,
             err.message, waited_s);
      c->mismatches++;
    }
    if (sum_and_wait(c, &args, NULL) == YK_OK) c->mismatches++; /* it stays so */
  }
  free_sum(c, &args);
}

/* ---- Running ---- */

typedef struct thread_start {
  rank_case *c;
  rank_body body;
} thread_start;

static void *run_rank(void *argument)
{
  thread_start *start = argument;
  start->body(start->c);
  return NULL;
}

/* Devices and their ends. */
typedef struct session {
  const comm_fixture *fixture;
  const values *values;
  int n_ranks;
  yk_device *devs[YK_MAX_RANKS];
  yk_comm *comms[YK_MAX_RANKS];
} session;

static bool open_session(session *s, const comm_fixture *fixture, int n_ranks, const values *v)
{
  *s = (session){.fixture = fixture, .values = v, .n_ranks = n_ranks};
  return fixture->open(n_ranks, v->dtype, s->devs, s->comms);
}

static void close_session(session *s)
{
  s->fixture->close(s->n_ranks, s->devs, s->comms);
}

/* Status, tolerances, and that all ranks hold the same bits. */
static bool check_ranks(const rank_case *cases, int n_ranks, const char *name, yk_status expected)
{
  bool good = true;
  for (int rank = 0; rank < n_ranks; rank++) {
    const rank_case *c = &cases[rank];
    bool same = !c->result || memcmp(c->result, cases[0].result, c->result_bytes) == 0;
    if (c->status == expected && c->mismatches == 0 && same) continue;
    good = false;
    printf("%s, rank %d of %d, %s [%d, %d]: expected %s, found %s; %d mismatches%s\n", name, rank, n_ranks,
           yk_dtype_name(c->dtype), c->n_rows, c->hidden, yk_status_name(expected), yk_status_name(c->status),
           c->mismatches, same ? "" : "; other bits than rank 0");
  }
  return good;
}

/* Run body on every rank at once. */
static bool run_case(session *s, const char *name, rank_body body, comm_shape shape, yk_status expected,
                     int misbehaving_rank)
{
  rank_case cases[YK_MAX_RANKS];
  thread_start starts[YK_MAX_RANKS];
  pthread_t threads[YK_MAX_RANKS];
  double n_steps = s->fixture->rounding_steps(s->n_ranks, shape);
  for (int rank = 0; rank < s->n_ranks; rank++) {
    cases[rank] = (rank_case){.fixture = s->fixture,
                              .values = s->values,
                              .comm = s->comms[rank],
                              .dtype = s->values->dtype,
                              .n_rows = shape.n_rows,
                              .hidden = shape.hidden,
                              .tolerance = n_steps * rounding_step(s->values->dtype) * 1.01,
                              .status = YK_E_INTERNAL,
                              .misbehave = rank == misbehaving_rank,
                              .misbehaving_rank = misbehaving_rank};
    starts[rank] = (thread_start){&cases[rank], body};
    assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &starts[rank]), 0);
  }
  for (int rank = 0; rank < s->n_ranks; rank++) pthread_join(threads[rank], NULL);
  bool good = check_ranks(cases, s->n_ranks, name, expected);
  for (int rank = 0; rank < s->n_ranks; rank++) free(cases[rank].result);
  return good;
}

/* ---- What leaves the ends whole: on the same ones, as many ranks and every type in turn ---- */

typedef struct whole_test {
  const comm_fixture *fixture;
  yk_dtype dtype;
  int n_ranks;
  char name[64];
} whole_test;

static bool run_shapes(session *s, const char *name, rank_body body, const comm_shape *shapes, int n_shapes)
{
  bool good = true;
  for (int i = 0; i < n_shapes && good; i++) good = run_case(s, name, body, shapes[i], YK_OK, -1);
  return good;
}

static void all_operations(void **state)
{
  enum { N_SHAPES = 4 };
  static const comm_shape shapes[N_SHAPES] = {{1, 8}, {5, 96}, {33, 1000}, {3, 1001}};
  static const struct {
    const char *name;
    rank_body body;
    bool takes_large; /* sums may go another way when large */
  } operations[] = {{"all_reduce", all_reduce_body, true},
                    {"all_reduce_add_norm", all_reduce_add_norm_body, true},
                    {"all_reduce_i32 sum", integer_sums_body, true},
                    {"all_reduce_i32 max", integer_maxima_body, true},
                    {"embedding", embedding_body, true},
                    {"gather", gather_body, false},
                    {"broadcast", broadcast_body, false}};
  const whole_test *test = *state;
  const comm_fixture *fixture = test->fixture;
  const comm_shape chain_shape = fixture->n_large_shapes ? (comm_shape){1100, 4096} : (comm_shape){70, 96};
  values *v = values_new(test->dtype);
  session s;
  bool opens = open_session(&s, fixture, test->n_ranks, v), good = opens;
  for (size_t i = 0; i < sizeof operations / sizeof *operations && good; i++) {
    int n_large = operations[i].takes_large && test->n_ranks > 1 ? fixture->n_large_shapes : 0;
    good = run_shapes(&s, operations[i].name, operations[i].body, shapes, N_SHAPES) &&
           run_shapes(&s, operations[i].name, operations[i].body, fixture->large_shapes, n_large);
  }
  if (good) good = run_case(&s, "sums that follow each other", chain_body, chain_shape, YK_OK, -1);
  if (opens) close_session(&s);
  free(v);
  if (!opens) skip();
  assert_true(good);
}

/* ---- What breaks the ends ---- */

/* Ends of their own each time: what was aborted stays so, and the next are as good as the first. */
static void with_one_rank_misbehaving(const comm_fixture *fixture, const char *name, comm_shape shape, rank_body body)
{
  values *v = values_new(YK_F16);
  bool good = true;
  for (int n_ranks = 2; n_ranks <= fixture->max_ranks && good; n_ranks++) {
    session s;
    if (fixture->opens_slowly && n_ranks > 2 && n_ranks < fixture->max_ranks) continue;
    if (!open_session(&s, fixture, n_ranks, v)) continue;
    good = run_case(&s, name, body, shape, YK_E_COMM, n_ranks - 1);
    close_session(&s);
  }
  free(v);
  assert_true(good);
}

static void abort_releases_waiting_ranks_and_sticks(void **state)
{
  with_one_rank_misbehaving(*state, "barrier", (comm_shape){1, 8}, abort_body);
}

static void abort_releases_a_sum_that_waits(void **state)
{
  const comm_fixture *fixture = *state;
  with_one_rank_misbehaving(fixture, "aborted sum", (comm_shape){1, 4096}, abort_sum_body);
  with_one_rank_misbehaving(fixture, "aborted sum", (comm_shape){3, 1001}, abort_sum_body);
  if (fixture->n_large_shapes)
    with_one_rank_misbehaving(fixture, "aborted sum", fixture->large_shapes[fixture->n_large_shapes - 2],
                              abort_sum_body);
}

static void a_rank_that_does_not_come_is_named(void **state)
{
  const comm_fixture *fixture = *state;
  if (fixture->step_limit_s == 0) skip();
  with_one_rank_misbehaving(fixture, "missing rank", (comm_shape){1, 4096}, missing_body);
  with_one_rank_misbehaving(fixture, "missing rank", (comm_shape){321, 4096}, missing_body);
}

int comm_conformance_run(const comm_fixture *fixture)
{
  enum { N_DTYPES = 3, N_BREAKING = 3 };
  static const yk_dtype dtypes[N_DTYPES] = {YK_F16, YK_BF16, YK_F32};
  static const struct {
    const char *name;
    CMUnitTestFunction run;
  } breaking[N_BREAKING] = {
      {"abort_releases_waiting_ranks_and_sticks", abort_releases_waiting_ranks_and_sticks},
      {"abort_releases_a_sum_that_waits", abort_releases_a_sum_that_waits},
      {"a_rank_that_does_not_come_is_named", a_rank_that_does_not_come_is_named},
  };
  whole_test whole[YK_MAX_RANKS * N_DTYPES];
  struct CMUnitTest tests[YK_MAX_RANKS * N_DTYPES + N_BREAKING];
  size_t n = 0;
  for (int n_ranks = 1; n_ranks <= fixture->max_ranks; n_ranks++)
    for (int d = 0; d < N_DTYPES; d++) {
      whole_test *test = &whole[n];
      *test = (whole_test){.fixture = fixture, .dtype = dtypes[d], .n_ranks = n_ranks};
      snprintf(test->name, sizeof test->name, "all_operations: %d ranks, %s", n_ranks, yk_dtype_name(dtypes[d]));
      tests[n++] = (struct CMUnitTest){test->name, all_operations, NULL, NULL, test};
    }
  for (int i = 0; i < N_BREAKING; i++)
    tests[n++] = (struct CMUnitTest){breaking[i].name, breaking[i].run, NULL, NULL, (void *)(uintptr_t)fixture};
  return _cmocka_run_group_tests(fixture->name, tests, n, NULL, NULL);
}
