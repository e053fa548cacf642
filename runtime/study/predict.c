#include "study/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/limits.h"
#include "study/parts.h"
#include "study/pieces.h"
#include "study/scaling.h"
#include "study/summary.h"

/* Points that differ only in their rank count. */
typedef struct family {
  yk_split split;
  const json_t *points[YK_PIECES_MAX];
  yk_pieces pieces[YK_PIECES_MAX];
  size_t n;
} family;

typedef struct prediction {
  const json_t *model;
  yk_machine_rates machine;
  const int *ranks;
  size_t n_ranks;
  json_t *predictions, *left_out;
  int failed; /* not 0: memory ran out */
} prediction;

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

/* The point's all-reduce times by the machine's figures, for each token of output. */
static yk_pieces machine_pieces(const prediction *made, const json_t *point, int ranks)
{
  yk_pieces pieces = {.ranks = ranks, .machine_transfer_s = -1};
  const char *dtype = json_string_value(json_object_get(made->model, "dtype"));
  double layers = number_of(made->model, "n_layers"), hidden = number_of(made->model, "hidden_size");
  double sublayers = number_of(made->model, "n_sublayers");
  if (!(sublayers > 0)) sublayers = 2 * layers; /* studies of earlier versions lack the key */
  double batch = number_of(point, "batch") + number_of(point, "clients");
  double n_in = number_of(point, "input_len"), n_out = number_of(point, "output_len");
  double row_bytes = hidden * yk_study_element_bytes(dtype);
  if (!(layers > 0 && hidden > 0 && batch > 0)) return pieces;
  double prefill_s = yk_machine_all_reduce_s(&made->machine, ranks, batch * n_in * row_bytes);
  double decode_s = yk_machine_all_reduce_s(&made->machine, ranks, batch * row_bytes);
  if (prefill_s < 0 || decode_s < 0) return pieces;
  pieces.machine_transfer_s = (sublayers + 1) * (prefill_s + (n_out - 1) * decode_s) / (batch * n_out);
  pieces.is_machine_measured = yk_machine_has_all_reduces(&made->machine, ranks);
  return pieces;
}

/* A point without times counts as a single product. */
static yk_pieces pieces_of(const prediction *made, const json_t *point)
{
  double shares[YK_TIME_PARTS], token_s = 1 / number_of(point, "output_throughput");
  yk_pieces pieces = machine_pieces(made, point, (int)number_of(point, "ranks"));
  if (!yk_study_shares_read(json_object_get(point, "time_us"), json_object_get(point, "time_us_prefill"), shares)) {
    pieces.split_s[YK_TIME_LM_HEAD] = token_s;
    return pieces;
  }
  for (int i = 0; i < YK_TIME_PARTS; i++) {
    const int part = yk_split_part_of((yk_time_part)i);
    *(part >= 0                          ? &pieces.split_s[part]
      : i == YK_TIME_ALL_REDUCE_TRANSFER ? &pieces.transfer_s
      : i == YK_TIME_ALL_REDUCE_WAIT     ? &pieces.wait_s
                                         : &pieces.rest_s) += token_s * shares[i];
  }
  return pieces;
}

/* Fits without the family's rank count at index `without` (SIZE_MAX: none left out) and without `ranks` itself. False:
 * no data. */
static bool fit(const prediction *made, const family *from, size_t without, int ranks, double *throughput)
{
  yk_pieces others[YK_PIECES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < from->n; i++)
    if (i != without && from->pieces[i].ranks != ranks) others[n++] = from->pieces[i];
  if (n == 0) return false;
  yk_pieces fitted = machine_pieces(made, from->points[0], ranks);
  yk_pieces_fit(&from->split, others, n, &fitted);
  double token_s = yk_pieces_total(&fitted);
  *throughput = 1 / token_s;
  return token_s > 0;
}

static void set_real(prediction *made, json_t *row, const char *key, double value)
{
  made->failed |= json_object_set_new(row, key, json_real(value));
}

/* A row with the point's settings on other ranks, and a throughput. */
static json_t *make_row(prediction *made, const json_t *point, int ranks, double throughput)
{
  static const char *const keys[] = {"batch", "request_rate", "clients", "input_len", "output_len", "options"};
  json_t *row = json_pack("{s:i}", "ranks", ranks);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(point, keys[i])) made->failed |= json_object_set(row, keys[i], json_object_get(point, keys[i]));
  set_real(made, row, "output_throughput", throughput);
  return row;
}

/* Predicts each measured count from the others. Returns the mean size of the errors; negative: there is only one
 * count. */
static double leave_out(prediction *made, const family *from, size_t base)
{
  double sum = 0, throughput;
  size_t n = 0;
  for (size_t i = 0; i < from->n; i++) {
    if (i == base) continue; /* predictions are for more ranks */
    double measured = number_of(from->points[i], "output_throughput");
    if (!fit(made, from, i, from->pieces[i].ranks, &throughput)) continue;
    json_t *row = make_row(made, from->points[i], from->pieces[i].ranks, throughput);
    set_real(made, row, "measured", measured);
    set_real(made, row, "error", throughput / measured - 1);
    made->failed |= json_array_append_new(made->left_out, row);
    sum += fabs(throughput / measured - 1);
    n++;
  }
  return n ? sum / (double)n : -1;
}

static void predict_family(prediction *made, const family *from)
{
  double throughput;
  size_t base = 0;
  for (size_t i = 1; i < from->n; i++)
    if (from->pieces[i].ranks < from->pieces[base].ranks) base = i;
  double error = leave_out(made, from, base);
  for (size_t i = 0; i < made->n_ranks; i++) {
    if (!fit(made, from, SIZE_MAX, made->ranks[i], &throughput)) continue;
    json_t *row = make_row(made, from->points[0], made->ranks[i], throughput);
    double base_throughput = number_of(from->points[base], "output_throughput");
    set_real(made, row, "speedup", throughput / base_throughput);
    made->failed |= json_object_set_new(row, "error", error < 0 ? json_null() : json_real(error));
    made->failed |= json_array_append_new(made->predictions, row);
  }
}

/* Predicts every family once, at its first point. keys [n]: of the points; keys of finished points become NULL. */
static void predict_all(prediction *made, const json_t *points, char **keys)
{
  size_t n = json_array_size(points);
  for (size_t i = 0; i < n; i++) {
    family found = {.n = 0};
    for (size_t j = n; j-- > i && keys[i];) {
      const json_t *point = json_array_get(points, j);
      if (!keys[j] || strcmp(keys[j], keys[i]) != 0) continue;
      if (number_of(point, "output_throughput") > 0 && found.n < YK_PIECES_MAX) {
        found.points[found.n] = point;
        found.pieces[found.n++] = pieces_of(made, point);
      }
      if (j == i) break; /* its key is still needed for comparisons */
      free(keys[j]);
      keys[j] = NULL;
    }
    if (found.n == 0) continue;
    bool expert_parallel = json_is_true(json_object_get(found.points[0], "expert_parallel"));
    found.split = yk_split_read(made->model, expert_parallel);
    predict_family(made, &found);
  }
}

yk_status yk_study_predict(const json_t *study, const int *ranks, size_t n_ranks, json_t **predictions,
                           json_t **left_out, yk_err *err)
{
  const json_t *points = json_object_get(study, "points");
  size_t n = json_array_size(points);
  prediction made = {.model = json_object_get(study, "model"),
                     .ranks = ranks,
                     .n_ranks = n_ranks,
                     .predictions = json_array(),
                     .left_out = json_array()};
  char **keys = calloc(n + 1, sizeof *keys);
  bool has_memory = keys && made.predictions && made.left_out;
  yk_machine_rates_read(json_object_get(study, "machine"), &made.machine);
  for (size_t i = 0; has_memory && i < n; i++)
    has_memory = (keys[i] = yk_scaling_key(json_array_get(points, i))) != NULL;
  if (has_memory) predict_all(&made, points, keys);
  has_memory &= !made.failed;
  for (size_t i = 0; keys && i < n; i++) free(keys[i]);
  free(keys);
  *predictions = made.predictions;
  *left_out = made.left_out;
  if (has_memory && json_array_size(made.predictions) > 0) return YK_OK;
  json_decref(made.predictions);
  json_decref(made.left_out);
  *predictions = *left_out = NULL;
  return has_memory ? yk_err_set(err, YK_E_INVAL, "the study has no point with the figures that a prediction needs")
                    : yk_err_set(err, YK_E_NOMEM, "no memory for predictions");
}
