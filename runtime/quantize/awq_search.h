/* awq_search.h - the scales and limits with which rounding changes least what layers make of calibrated inputs. */
#ifndef YK_QUANTIZE_AWQ_SEARCH_H
#define YK_QUANTIZE_AWQ_SEARCH_H

#include "quantize/calibration.h"

/* What is searched for, and with: memory of the rank's device, as large as the largest search wanted. */
typedef struct yk_awq_search {
  const yk_quantize_rank *rank;
  const yk_checkpoint *checkpoint;
  const yk_model_config *config;
  yk_calibration calibration;
  const float *rows; /* that the device was shown last: of this key */
  int32_t n_rows;
  int64_t rows_key;
  float *gathered; /* host: rows of an expert */
  yk_quantize_buffer shown_rows, reader, grid, scratch, grams, limits;
} yk_awq_search;

/* Inputs that are scaled alike. */
typedef struct yk_awq_inputs {
  int32_t layer;
  yk_input_kind kind;
  int32_t expert; /* of EXPERT_DOWN */
} yk_awq_inputs;

/* Their scales. */
typedef struct yk_awq_fold {
  float *scales;   /* [k], or NULL: none */
  float *inverses; /* [outputs of the writer] 1 / scale of the input that the output is; NULL where a norm writes */
  void *norm;      /* the norm that writes the inputs, divided; NULL where a linear layer does */
} yk_awq_fold;

/* yk_awq_search_scales - out: zeroed; the caller's to free with yk_awq_fold_free, also after an error.
 *   Errors: YK_E_FORMAT (weights that cannot be quantised), YK_E_CANCELLED, YK_E_NOMEM, YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_awq_search_scales(yk_awq_search *search, const yk_awq_inputs *inputs, yk_awq_fold *out, yk_err *err);
void yk_awq_fold_free(yk_awq_fold *fold);

/* yk_awq_search_limits - where a linear layer's groups are to be cut: weight->limits, which is the search's until the
 *   next call. They stay NULL where no row is known, and for groups of more than YK_AWQ_MAX_LIMITED_GROUP.
 *   Errors: as above. */
yk_status yk_awq_search_limits(yk_awq_search *search, const yk_weight_place *reader, yk_awq_floats *weight,
                               yk_err *err);

void yk_awq_search_free(yk_awq_search *search); /* and the calibration */

#endif
