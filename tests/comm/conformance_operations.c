#include "comm/conformance_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/shard.h"

void all_reduce_body(rank_case *c)
{
  size_t n = (size_t)c->n_rows * (size_t)c->hidden;
  void *data = case_array(c, c->comm->rank, n);
  case_barrier(c);
  c->status = c->comm->ops->all_reduce(c->comm, data, (int64_t)n, c->dtype, NULL);
  case_keep_result(c, data, n * yk_dtype_bytes(c->dtype));
  for (size_t i = 0; i < n; i++) {
    double magnitude, expected = case_sum(c, i, &magnitude);
    case_expect_close(c, i, expected, magnitude);
  }
  c->comm->dev->ops->free(c->comm->dev, data);
}

/* Element i of a rank: of either sign, and such that the sums are not exact in float32. */
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
  case_barrier(c);
  c->status = c->comm->ops->all_reduce_i32(c->comm, data, (int64_t)n, reduction, NULL);
  if (dev->ops->download(dev, host, data, bytes, NULL) != YK_OK) c->mismatches++;
  for (size_t i = 0; i < n; i++) c->mismatches += host[i] != reduced_integer(c, i, reduction);
  free(host);
  dev->ops->free(dev, data);
}

void integer_sums_body(rank_case *c)
{
  reduce_integers(c, YK_REDUCE_SUM);
}

void integer_maxima_body(rank_case *c)
{
  reduce_integers(c, YK_REDUCE_MAX);
}

/* Element i of a rank: sums of these depend on the order of additions. */
static float float_of(int rank, size_t i)
{
  return ldexpf((float)integer_of(rank, i), (int)(i + (size_t)rank) % 5 - 30);
}

/* Neighbouring ranks first, then neighbouring pairs, and so on. */
void tree_body(rank_case *c)
{
  yk_device *dev = c->comm->dev;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * sizeof(float);
  const int n_ranks = c->comm->n_ranks;
  void *data = NULL;
  float *host = malloc(bytes);
  c->status = YK_OK;
  for (size_t i = 0; i < n; i++) host[i] = float_of(c->comm->rank, i);
  if (dev->ops->alloc(dev, bytes, &data, NULL) != YK_OK || dev->ops->upload(dev, data, host, bytes, NULL) != YK_OK)
    c->mismatches++;
  if (c->comm->ops->all_reduce_tree && c->comm->rank == 0) /* the others are not there */
    c->mismatches += c->comm->ops->all_reduce_tree(c->comm, NULL, 0, NULL) != YK_OK;
  case_barrier(c);
  if (c->comm->ops->all_reduce_tree) {
    c->status = c->comm->ops->all_reduce_tree(c->comm, data, (int64_t)n, NULL);
    if (dev->ops->download(dev, host, data, bytes, NULL) != YK_OK) c->mismatches++;
    for (size_t i = 0; i < n; i++) {
      float sums[COMM_TESTED_RANKS] = {0};
      for (int rank = 0; rank < n_ranks; rank++) sums[rank] = float_of(rank, i);
      for (int step = 1; step < n_ranks; step *= 2)
        for (int rank = 0; rank + step < n_ranks; rank += 2 * step) sums[rank] += sums[rank + step];
      c->mismatches += host[i] != sums[0];
    }
  }
  free(host);
  dev->ops->free(dev, data);
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
    double expected = yk_dtype_load(c->dtype, c->result, row * hidden + i) * scale * case_value(c, WEIGHT, i);
    double found = yk_dtype_load(c->dtype, normed, row * hidden + i);
    if (!(fabs(found - expected) <= 3 * case_rounding_step(c->dtype) * fabs(expected) + 1e-6)) c->mismatches++;
  }
}

void all_reduce_add_norm_body(rank_case *c)
{
  const float alpha = 0.5f, eps = 1e-5f;
  yk_device *dev = c->comm->dev;
  size_t hidden = (size_t)c->hidden, n = (size_t)c->n_rows * hidden, bytes = n * yk_dtype_bytes(c->dtype);
  void *partial = case_array(c, c->comm->rank, n), *residual = case_array(c, RESIDUAL, n);
  void *w = case_array(c, WEIGHT, hidden), *y = case_array(c, WEIGHT, n);
  const yk_all_reduce_add_norm_args args = {.partial = {.rows = partial},
                                            .residual = residual,
                                            .y = y,
                                            .w = w,
                                            .n_rows = c->n_rows,
                                            .hidden = c->hidden,
                                            .alpha = alpha,
                                            .eps = eps,
                                            .reader = YK_READER_ROUTER};
  case_barrier(c);
  c->status = c->comm->ops->all_reduce_add_norm(c->comm, &args, NULL);
  case_keep_result(c, residual, bytes);
  for (size_t i = 0; i < n; i++) {
    double magnitude, sum = case_sum(c, i, &magnitude), before = case_value(c, RESIDUAL, i);
    case_expect_close(c, i, before + alpha * sum, fabs(before) + alpha * magnitude);
  }
  char *normed = malloc(bytes);
  if (dev->ops->download(dev, normed, y, bytes, NULL) != YK_OK) c->mismatches++;
  for (size_t row = 0; row < (size_t)c->n_rows; row++) check_norm(c, normed, row, eps);
  free(normed);
  void *const arrays[] = {partial, residual, w, y};
  for (int i = 0; i < 4; i++) dev->ops->free(dev, arrays[i]);
}

/* residual = gain * (residual + alpha * norm of the sum). A rounding of the sum moves its norm by the sum's magnitude;
 * the norm itself has two roundings, and its factor moves by less than one. */
static void expect_result_norm(rank_case *c, size_t row, float alpha, float gain, double eps)
{
  const size_t hidden = (size_t)c->hidden, first = row * hidden;
  double squares = 0, magnitude;
  for (size_t i = 0; i < hidden; i++) squares += pow(case_sum(c, first + i, &magnitude), 2);
  const double factor = 1 / sqrt(squares / (double)hidden + eps);
  for (size_t i = 0; i < hidden; i++) {
    const double before = case_value(c, RESIDUAL, first + i), scale = factor * case_value(c, WEIGHT, i);
    const double normed = scale * case_sum(c, first + i, &magnitude);
    case_expect_close(c, first + i, gain * (before + alpha * normed),
                      fabs((double)gain) * (fabs(before) + alpha * (fabs(scale) * magnitude + 4 * fabs(normed))));
  }
}

void result_norm_body(rank_case *c)
{
  const float alpha = 0.5f, gain = -0.7f, eps = 1e-5f;
  yk_device *dev = c->comm->dev;
  size_t hidden = (size_t)c->hidden, n = (size_t)c->n_rows * hidden, bytes = n * yk_dtype_bytes(c->dtype);
  void *partial = case_array(c, c->comm->rank, n), *residual = case_array(c, RESIDUAL, n);
  void *w = case_array(c, WEIGHT, hidden), *y = case_array(c, WEIGHT, n);
  const yk_all_reduce_add_norm_args args = {.partial = {.rows = partial},
                                            .residual = residual,
                                            .y = y,
                                            .result_w = w,
                                            .w = w,
                                            .n_rows = c->n_rows,
                                            .hidden = c->hidden,
                                            .alpha = alpha,
                                            .gain = gain,
                                            .eps = eps};
  case_barrier(c);
  c->status = c->comm->ops->all_reduce_add_norm(c->comm, &args, NULL);
  case_keep_result(c, residual, bytes);
  for (size_t row = 0; row < (size_t)c->n_rows; row++) expect_result_norm(c, row, alpha, gain, eps);
  char *normed = malloc(bytes);
  if (dev->ops->download(dev, normed, y, bytes, NULL) != YK_OK) c->mismatches++;
  for (size_t row = 0; row < (size_t)c->n_rows; row++) check_norm(c, normed, row, eps);
  free(normed);
  void *const arrays[] = {partial, residual, w, y};
  for (int i = 0; i < 4; i++) dev->ops->free(dev, arrays[i]);
}

/* ---- All-reduces with a fused combination ---- */

enum { TOP_K = 3 };

/* The slot of a choice (3 per row), or -1 for a slot on another rank. */
static int32_t slot_of(int32_t row, int choice)
{
  return (row + choice) % 4 == 0 ? -1 : TOP_K * row + TOP_K - 1 - choice;
}

static float weight_of(int32_t row, int choice)
{
  return 0.125f * (float)(1 + (row + 2 * choice) % 5);
}

/* Element `column` of a rank's combination; its magnitude is added to *magnitude. The partial result holds the shared
 * expert's output beforehand, whose gate's logit is 0. */
static double combined_value(const rank_case *c, int rank, int32_t row, int32_t column, double *magnitude)
{
  size_t hidden = (size_t)c->hidden, i = (size_t)column;
  double sum = 0.5 * case_value(c, rank, (size_t)row * hidden + i);
  *magnitude += fabs(sum);
  for (int j = 0; j < TOP_K; j++) {
    if (slot_of(row, j) < 0) continue;
    double value = (double)weight_of(row, j) * case_value(c, rank, (size_t)slot_of(row, j) * hidden + i);
    sum += value;
    *magnitude += fabs(value);
  }
  return sum;
}

static void *on_device(rank_case *c, const void *host, size_t n_bytes)
{
  yk_device *dev = c->comm->dev;
  void *array = NULL;
  if (dev->ops->alloc(dev, n_bytes, &array, NULL) != YK_OK ||
      dev->ops->upload(dev, array, host, n_bytes, NULL) != YK_OK)
    c->mismatches++;
  return array;
}

/* gain: as in yk_all_reduce_add_norm_args. */
static void check_combination(rank_case *c, float gain)
{
  yk_device *dev = c->comm->dev;
  size_t n_choices = (size_t)c->n_rows * TOP_K, n = (size_t)c->n_rows * (size_t)c->hidden;
  int32_t *slots_host = malloc(n_choices * sizeof *slots_host);
  float *weights_host = malloc(n_choices * sizeof *weights_host),
        *gates_host = calloc((size_t)c->n_rows, 2 * sizeof(float));
  for (int32_t i = 0; i < c->n_rows; i++) {
    gates_host[2 * i + 1] = NAN; /* must not be read */
    for (int j = 0; j < TOP_K; j++) {
      slots_host[i * TOP_K + j] = slot_of(i, j);
      weights_host[i * TOP_K + j] = weight_of(i, j);
    }
  }
  void *slot_of_choice = on_device(c, slots_host, n_choices * sizeof *slots_host);
  void *weights = on_device(c, weights_host, n_choices * sizeof *weights_host);
  void *gates = on_device(c, gates_host, (size_t)c->n_rows * 2 * sizeof(float));
  void *slots = case_array(c, c->comm->rank, n * TOP_K), *partial = case_array(c, c->comm->rank, n);
  void *residual = case_array(c, RESIDUAL, n), *w = case_array(c, WEIGHT, (size_t)c->hidden),
       *y = case_array(c, WEIGHT, n);
  const yk_combine_args combine = {.y = partial,
                                   .slots = slots,
                                   .weights = weights,
                                   .slot_of_choice = slot_of_choice,
                                   .shared = partial,
                                   .shared_gate = gates,
                                   .shared_gate_stride = 2,
                                   .n_tokens = c->n_rows,
                                   .top_k = TOP_K,
                                   .hidden = c->hidden};
  const yk_all_reduce_add_norm_args args = {.partial = {YK_PARTIAL_SLOTS, partial, combine},
                                            .residual = residual,
                                            .y = y,
                                            .w = w,
                                            .n_rows = c->n_rows,
                                            .hidden = c->hidden,
                                            .alpha = 1,
                                            .gain = gain,
                                            .eps = 1e-5f};
  const double factor = gain == 0 ? 1 : (double)gain;
  case_barrier(c);
  c->status = c->comm->ops->all_reduce_add_norm(c->comm, &args, NULL);
  case_keep_result(c, residual, n * yk_dtype_bytes(c->dtype));
  for (int32_t row = 0; row < c->n_rows; row++)
    for (int32_t column = 0; column < c->hidden; column++) {
      size_t i = (size_t)row * (size_t)c->hidden + (size_t)column;
      double sum = case_value(c, RESIDUAL, i), magnitude = fabs(sum);
      for (int rank = 0; rank < c->comm->n_ranks; rank++) sum += combined_value(c, rank, row, column, &magnitude);
      /* rounded once more than other sums */
      case_expect_close(c, i, factor * sum, 2 * fabs(factor) * magnitude);
    }
  void *const arrays[] = {slot_of_choice, weights, gates, slots, partial, residual, w, y};
  for (int i = 0; i < 8; i++) dev->ops->free(dev, arrays[i]);
  free(slots_host);
  free(weights_host);
  free(gates_host);
}

void combining_all_reduce_body(rank_case *c)
{
  check_combination(c, 0);
}

void combining_with_gain_body(rank_case *c)
{
  check_combination(c, -0.7f);
}

void gather_body(rank_case *c)
{
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * yk_dtype_bytes(c->dtype);
  int n_ranks = c->comm->n_ranks;
  void *data = case_array(c, c->comm->rank, n * (size_t)n_ranks);
  c->status = c->comm->ops->gather(c->comm, data, (int64_t)bytes, NULL);
  if (c->comm->rank == 0) {
    char *all = malloc(bytes * (size_t)n_ranks);
    if (c->comm->dev->ops->download(c->comm->dev, all, data, bytes * (size_t)n_ranks, NULL) != YK_OK) c->mismatches++;
    for (int rank = 0; rank < n_ranks; rank++)
      for (size_t i = 0; i < n; i++)
        if (yk_dtype_load(c->dtype, all, (size_t)rank * n + i) != case_value(c, rank, i)) c->mismatches++;
    free(all);
  }
  c->comm->dev->ops->free(c->comm->dev, data);
}

/* Numbers of rows, each twice in succession, so that any may be the first. */
static int32_t *make_row_numbers(rank_case *c)
{
  yk_device *dev = c->comm->dev;
  size_t n_bytes = 2 * (size_t)c->n_rows * sizeof(int32_t);
  void *numbers = NULL;
  int32_t *host = malloc(n_bytes);
  for (int32_t i = 0; i < 2 * c->n_rows; i++) host[i] = i % c->n_rows;
  if (dev->ops->alloc(dev, n_bytes, &numbers, NULL) != YK_OK ||
      dev->ops->upload(dev, numbers, host, n_bytes, NULL) != YK_OK)
    c->mismatches++;
  free(host);
  return numbers;
}

/* Rank 0 holds the rows of all ranks; each rank's rows begin at row `first`. */
static void check_written(rank_case *c, const void *all, int32_t first)
{
  yk_device *dev = c->comm->dev;
  size_t n_rows = (size_t)c->n_rows, hidden = (size_t)c->hidden, n = n_rows * hidden;
  size_t bytes = n * (size_t)c->comm->n_ranks * yk_dtype_bytes(c->dtype);
  char *host = malloc(bytes);
  if (dev->ops->download(dev, host, all, bytes, NULL) != YK_OK) c->mismatches++;
  for (int rank = 0; rank < c->comm->n_ranks; rank++)
    for (size_t i = 0; i < n; i++) {
      size_t row = (i / hidden + (size_t)first) % n_rows;
      double expected = case_value(c, rank, row * hidden + i % hidden);
      if (yk_dtype_load(c->dtype, host, (size_t)rank * n + i) != expected) c->mismatches++;
    }
  free(host);
}

/* Several times over the same memory: a row that has not arrived still has the values of the time before. */
void await_writes_body(rank_case *c)
{
  enum { N_TIMES = 4 };
  yk_device *dev = c->comm->dev;
  yk_comm *comm = c->comm;
  c->status = YK_OK;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden, bytes = n * yk_dtype_bytes(c->dtype);
  void *own = comm->rank == 0 ? case_array(c, RESIDUAL, n * (size_t)comm->n_ranks) : NULL;
  void *opened[YK_MAX_RANKS] = {0};
  c->status = comm->ops->open_memories(comm, own, opened, NULL);
  for (int rank = 1; rank < comm->n_ranks; rank++) c->mismatches += opened[rank] != NULL;
  if (c->status != YK_OK || !opened[0] || comm->n_ranks == 1) {
    if (own) dev->ops->free(dev, own);
    return;
  }
  void *source = case_array(c, comm->rank, n);
  int32_t *numbers = make_row_numbers(c);
  dev->ops->sync(dev, NULL);
  for (int32_t time = 0; time < N_TIMES && c->status == YK_OK; time++) {
    int32_t first = time % c->n_rows;
    yk_gather_rows_args write = {NULL, source, numbers + first, c->n_rows, c->hidden};
    case_barrier(c);
    write.y = (char *)opened[0] + (size_t)comm->rank * bytes;
    c->status = dev->ops->gather_rows(dev, &write, NULL);
    if (c->status == YK_OK) c->status = comm->ops->await_writes(comm, NULL);
    if (comm->rank == 0) check_written(c, own, first);
  }
  dev->ops->sync(dev, NULL);
  case_barrier(c);
  if (own) dev->ops->free(dev, own);
  dev->ops->free(dev, source);
  dev->ops->free(dev, numbers);
}

/* Every rank reads every rank's memory: all of it is open, or none. Memory that a rank does not give is not open. */
void open_memories_body(rank_case *c)
{
  yk_device *dev = c->comm->dev;
  const int last = c->comm->n_ranks - 1;
  const size_t n = (size_t)c->n_rows * (size_t)c->hidden;
  void *own = case_array(c, c->comm->rank, n), *host = malloc(n * yk_dtype_bytes(c->dtype)), *opened[YK_MAX_RANKS];
  dev->ops->sync(dev, NULL);
  c->status = c->comm->ops->open_memories(c->comm, own, opened, NULL);
  for (int rank = 0; rank < c->comm->n_ranks && c->status == YK_OK; rank++) {
    c->mismatches += !opened[rank] != !opened[0] || (c->fixture->opens_memories && !opened[rank]);
    if (!opened[rank]) continue;
    c->status = dev->ops->download(dev, host, opened[rank], n * yk_dtype_bytes(c->dtype), NULL);
    for (size_t i = 0; i < n; i++) c->mismatches += yk_dtype_load(c->dtype, host, i) != case_value(c, rank, i);
  }
  case_barrier(c);
  if (c->status == YK_OK)
    c->status = c->comm->ops->open_memories(c->comm, c->comm->rank == last ? NULL : own, opened, NULL);
  for (int rank = 0; rank <= last && c->status == YK_OK; rank++)
    c->mismatches += rank == last ? opened[rank] != NULL : c->fixture->opens_memories && !opened[rank];
  case_barrier(c);
  dev->ops->free(dev, own);
  free(host);
}

/* Several times: only rank 0 waits, so a rank may run ahead of it. */
void gather_host_body(rank_case *c)
{
  enum { N_TIMES = 5 };
  yk_comm *comm = c->comm;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden;
  int32_t *mine = malloc(n * sizeof *mine), *all = calloc(n * (size_t)comm->n_ranks, sizeof *all);
  c->status = mine && all ? YK_OK : YK_E_NOMEM;
  for (int32_t time = 0; time < N_TIMES && c->status == YK_OK; time++) {
    for (size_t i = 0; i < n; i++) mine[i] = (int32_t)i * 31 + comm->rank * 7 + time;
    c->status = comm->ops->gather_host(comm, mine, n * sizeof *mine, comm->rank == 0 ? all : NULL, NULL);
    for (int rank = 0; comm->rank == 0 && rank < comm->n_ranks; rank++)
      for (size_t i = 0; i < n; i++)
        if (all[(size_t)rank * n + i] != (int32_t)i * 31 + rank * 7 + time) c->mismatches++;
  }
  free(mine);
  free(all);
}

/* ---- An embedding divided over the ranks ---- */

enum { VOCAB = 131, VOCAB_UNIT = 8 };

static int32_t token_of_row(int32_t row)
{
  return (row * 37 + VOCAB - 1) % VOCAB;
}

/* Element i of the whole table, with some minus zeros. */
static float table_value(const rank_case *c, size_t i)
{
  return i % 7 == 0 ? -0.0f : c->values->rounded[RESIDUAL][i % PERIOD];
}

/* The rows of the rank's ids, and the requested ids. */
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

/* Equal to one table bit for bit, except that a zero is plus zero. */
static void check_embedding(rank_case *c, float scale)
{
  size_t hidden = (size_t)c->hidden, bytes = yk_dtype_bytes(c->dtype);
  for (size_t i = 0; i < (size_t)c->n_rows * hidden; i++) {
    float expected[1], value = table_value(c, (size_t)token_of_row((int32_t)(i / hidden)) * hidden + i % hidden);
    yk_dtype_store(c->dtype, expected, 0, value == 0 ? 0 : value * scale);
    if (memcmp((char *)c->result + i * bytes, expected, bytes) != 0) c->mismatches++;
  }
}

/* Partial and residual hold other values before. */
void embedding_body(rank_case *c)
{
  yk_device *dev = c->comm->dev;
  size_t n = (size_t)c->n_rows * (size_t)c->hidden;
  yk_range shard = yk_shard_range(VOCAB, VOCAB_UNIT, c->comm->rank, c->comm->n_ranks);
  void *table = make_table(c, shard), *ids = make_ids(c), *w = case_array(c, WEIGHT, (size_t)c->hidden);
  void *partial = case_array(c, c->comm->rank, n), *residual = case_array(c, RESIDUAL, n);
  void *y = case_array(c, WEIGHT, n);
  yk_embed_args embed = {.y = partial,
                         .cleared = residual,
                         .table = table,
                         .token_ids = ids,
                         .first_id = (int32_t)shard.begin,
                         .n_ids = (int32_t)yk_range_size(shard),
                         .n_tokens = c->n_rows,
                         .hidden = c->hidden,
                         .scale = 0.3f};
  const yk_all_reduce_add_norm_args sum = {.partial = {.rows = partial},
                                           .residual = residual,
                                           .y = y,
                                           .w = w,
                                           .n_rows = c->n_rows,
                                           .hidden = c->hidden,
                                           .alpha = 1,
                                           .eps = 1e-5f};
  case_barrier(c);
  c->status = dev->ops->embed(dev, &embed, NULL);
  if (c->status == YK_OK) c->status = c->comm->ops->all_reduce_add_norm(c->comm, &sum, NULL);
  case_keep_result(c, residual, n * yk_dtype_bytes(c->dtype));
  check_embedding(c, embed.scale);
  void *const arrays[] = {table, ids, w, partial, residual, y};
  for (int i = 0; i < 6; i++) dev->ops->free(dev, arrays[i]);
}

/* ---- Consecutive sums, separate and recorded ---- */

enum { N_CHAIN = 6, N_REPLAYS = 3 };

/* Outputs of a chain of sums; the case's number of rows is the largest. */
static int32_t chain_rows(const rank_case *c, int i)
{
  static const int32_t rows[N_CHAIN] = {1, 40, 5, 1, 300, 1100};
  return rows[i] < c->n_rows ? rows[i] : c->n_rows;
}

typedef struct chain {
  void *source, *partial, *residual, *y, *w, *row_numbers;
} chain;

/* partial, which a sum may overwrite, is copied again before each sum. */
static yk_status run_chain(rank_case *c, const chain *a)
{
  yk_device *dev = c->comm->dev;
  for (int i = 0; i < N_CHAIN; i++) {
    int32_t n_rows = chain_rows(c, i);
    yk_gather_rows_args copy = {a->partial, a->source, a->row_numbers, n_rows, c->hidden};
    const yk_all_reduce_add_norm_args sum = {.partial = {.rows = a->partial},
                                             .residual = a->residual,
                                             .y = a->y,
                                             .w = a->w,
                                             .n_rows = n_rows,
                                             .hidden = c->hidden,
                                             .alpha = 1,
                                             .eps = 1e-5f};
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

/* Small integers, whose sums are exact in every type: rank 0 contributes twos, the others ones. */
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

void chain_body(rank_case *c)
{
  chain a = {0};
  yk_device *dev = c->comm->dev;
  make_chain(c, &a);
  case_barrier(c);
  int n_runs = 1 + (dev->ops->graph_begin ? N_REPLAYS : 0);
  c->status = run_chain(c, &a);
  if (c->status == YK_OK && dev->ops->graph_begin) c->status = replay_chain(c, &a);
  size_t hidden = (size_t)c->hidden;
  case_keep_result(c, a.residual, (size_t)c->n_rows * hidden * yk_dtype_bytes(c->dtype));
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

/* Messages of different sizes pass through all stages, while each stage reduces in its own group. */
void stages_body(rank_case *c)
{
  enum { N_MESSAGES = 8 };
  yk_comm *comm = c->comm;
  yk_device *dev = comm->dev;
  c->status = YK_OK;
  for (int i = 0; i < N_MESSAGES && c->status == YK_OK; i++) {
    size_t n = (size_t)(i * 976 % 5000 + c->hidden), bytes = n * yk_dtype_bytes(c->dtype);
    int source = (comm->rank + i) % COMM_TESTED_RANKS;
    void *data = case_array(c, comm->stage == 0 ? source : WEIGHT, n), *sum = case_array(c, comm->stage, n);
    char *found = malloc(bytes);
    if (comm->stage > 0) c->status = comm->ops->receive_previous(comm, data, (int64_t)bytes, NULL);
    if (c->status == YK_OK) c->status = comm->ops->all_reduce(comm, sum, (int64_t)n, c->dtype, NULL);
    if (dev->ops->download(dev, found, data, bytes, NULL) != YK_OK) c->mismatches++;
    for (size_t j = 0; j < n; j++)
      c->mismatches += yk_dtype_load(c->dtype, found, j) != (float)case_value(c, source, j);
    if (dev->ops->download(dev, found, sum, bytes, NULL) != YK_OK) c->mismatches++;
    for (size_t j = 0; j < n; j++) {
      double expected = comm->n_ranks * case_value(c, comm->stage, j);
      double found_sum = yk_dtype_load(c->dtype, found, j);
      c->mismatches += !(fabs(found_sum - expected) <= c->tolerance * fabs(expected));
    }
    if (c->status == YK_OK && comm->stage < comm->n_stages - 1)
      c->status = comm->ops->send_next(comm, data, (int64_t)bytes, NULL);
    free(found);
    dev->ops->free(dev, data);
    dev->ops->free(dev, sum);
  }
}
