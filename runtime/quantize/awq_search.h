/* awq_search.h - search the scales and limits with which rounding changes the outputs of layers least, on calibrated
 * inputs. */
#ifndef YK_QUANTIZE_AWQ_SEARCH_H
#define YK_QUANTIZE_AWQ_SEARCH_H

#include "quantize/calibration.h"

/* Context of the search. Buffers are device memory, as large as the largest search so far. */
typedef struct yk_awq_search {
  const yk_quantize_rank *rank;
  const yk_checkpoint *checkpoint;
  const yk_model_config *config;
  yk_calibration calibration;
  const float *rows; /* rows last shown to the device, and their key */
  int32_t n_rows;
  int64_t rows_key;
  float *gathered; /* host: rows of an expert */
  yk_quantize_buffer shown_rows, reader, grid, scratch, grams, limits;
  yk_quantize_rows rows_of_reader;
} yk_awq_search;

/* Inputs that share scales. */
typedef struct yk_awq_inputs {
  int32_t layer;
  yk_input_kind kind;
  int32_t expert; /* only for EXPERT_DOWN */
} yk_awq_inputs;

/* Scales of such inputs. */
typedef struct yk_awq_fold {
  float *scales;   /* [k], or NULL: no scales */
  float *inverses; /* [outputs of the writer] 1 / scale of the input that the output becomes; NULL if a norm writes
                    * them */
  void *norm;      /* the norm that writes the inputs, divided by the scales; NULL if a linear layer writes */
} yk_awq_fold;

/* yk_awq_search_scales - out: zeroed; the caller frees it with yk_awq_fold_free, also after an error.
 *   Errors: YK_E_FORMAT (weights that cannot be quantised), YK_E_CANCELLED, YK_E_NOMEM, YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_awq_search_scales(yk_awq_search *search, const yk_awq_inputs *inputs, yk_awq_fold *out, yk_err *err);
void yk_awq_fold_free(yk_awq_fold *fold);

/* yk_awq_search_limits - set weight->limits, at which a linear layer's groups are clipped. search owns the limits; they
 *   are valid until the next call. They stay NULL if no row was recorded, and for groups of more than
 *   YK_AWQ_MAX_LIMITED_GROUP.
 *   Errors: as above. */
yk_status yk_awq_search_limits(yk_awq_search *search, const yk_weight_place *reader, yk_awq_floats *weight,
                               yk_err *err);

void yk_awq_search_free(yk_awq_search *search); /* frees the calibration too */

#endif
