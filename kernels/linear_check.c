/* linear_check.c - rejects an inconsistent linear layer before a device uses it. */
#include <math.h>

#include "base/checked.h"
#include "kernels/linear.h"

/* Inputs of a local group share a scale. */
static yk_status check_groups(const yk_linear_part *part, int index, yk_err *err)
{
  const yk_weight_view *weight = &part->weight;
  if (part->group_local < 1)
    return yk_err_set(err, YK_E_INVAL, "linear part %d: group_local: expected at least 1, found %lld", index,
                      (long long)part->group_local);
  for (int64_t first = part->k.begin; first < part->k.end; first += part->group_local) {
    int64_t last = yk_min_i64(first + part->group_local, part->k.end) - 1;
    if (first / weight->group != last / weight->group)
      return yk_err_set(err, YK_E_INVAL,
                        "linear part %d: rows %lld to %lld are one local group of %lld but lie in different groups of "
                        "%lld",
                        index, (long long)first, (long long)last, (long long)part->group_local,
                        (long long)weight->group);
  }
  return YK_OK;
}

yk_status yk_linear_check_awq(const yk_linear_part *part, int index, yk_err *err)
{
  const yk_weight_view *weight = &part->weight;
  if (yk_range_size(part->k) == 0 || yk_range_size(part->n) == 0) return YK_OK;
  if (weight->n % 8 || weight->group < 1 || weight->k % weight->group)
    return yk_err_set(err, YK_E_INVAL,
                      "linear part %d: AWQ needs n a multiple of 8 and a group that divides k, found k %lld, n %lld, "
                      "group %lld",
                      index, (long long)weight->k, (long long)weight->n, (long long)weight->group);
  if (weight->packing != YK_PACKING_AWQ_GEMM || !weight->qzeros)
    return yk_err_set(err, YK_E_INVAL,
                      "linear part %d: expected 4-bit weights in AWQ gemm order with zeros, found "
                      "packing %d",
                      index, (int)weight->packing);
  return check_groups(part, index, err);
}

yk_status yk_linear_check_bytes(const yk_linear_part *part, int index, yk_err *err)
{
  const yk_weight_view *weight = &part->weight;
  if (weight->group < 1)
    return yk_err_set(err, YK_E_INVAL, "linear part %d: weights of 8 bits: expected a group of at least 1, found %lld",
                      index, (long long)weight->group);
  if (yk_range_size(part->k) == 0 || yk_range_size(part->n) == 0) return YK_OK;
  if (weight->packing != YK_PACKING_ROWS || weight->dtype != YK_F32 || (weight->has_zeros && !weight->qzeros))
    return yk_err_set(err, YK_E_INVAL,
                      "linear part %d: expected weights of 8 bits as rows of bytes, with float32 scales and the zeros "
                      "that they have, found packing %d, %s",
                      index, (int)weight->packing, yk_dtype_name(weight->dtype));
  return check_groups(part, index, err);
}

static bool is_alike(const yk_weight_view *a, const yk_weight_view *b)
{
  return a->format == b->format && a->k == b->k && a->n == b->n && a->group == b->group && a->dtype == b->dtype &&
         a->act_order == b->act_order && (a->format != YK_WEIGHT_INT8 || a->has_zeros == b->has_zeros) &&
         yk_inputs_are_alike(&a->inputs, &b->inputs);
}

/* The matrices after the first have the layout of the first. */
static yk_status check_matrices(const yk_linear_spec *spec, int index, yk_err *err)
{
  const yk_linear_part *part = &spec->parts[index];
  for (int32_t i = 1; i < spec->n_matrices; i++) {
    const yk_weight_view *weight = &part->more_weights[i - 1];
    if (!is_alike(weight, &part->weight))
      return yk_err_set(err, YK_E_INVAL,
                        "linear part %d: expected matrix %d as matrix 0 (k %lld, n %lld, group %lld), found k %lld, "
                        "n %lld, group %lld, or another format, type or way of inputs",
                        index, i, (long long)part->weight.k, (long long)part->weight.n, (long long)part->weight.group,
                        (long long)weight->k, (long long)weight->n, (long long)weight->group);
    if (part->use_bias && !weight->bias)
      return yk_err_set(err, YK_E_INVAL, "linear part %d: use_bias: expected a bias of matrix %d, found none", index,
                        i);
  }
  return YK_OK;
}

static yk_status check_order(const yk_linear_part *part, int32_t n_matrices, int index, yk_err *err)
{
  int64_t k = yk_range_size(part->k);
  if (part->x_size == 0 && !part->x_order) return YK_OK;
  if (part->x_size < 1 || !part->x_order)
    return yk_err_set(err, YK_E_INVAL,
                      "linear part %d: an order of inputs needs the columns of x and their size, found "
                      "size %lld",
                      index, (long long)part->x_size);
  for (int64_t i = 0; i < n_matrices * k; i++)
    if (part->x_order[i] < -1 || part->x_order[i] >= part->x_size)
      return yk_err_set(err, YK_E_INVAL, "linear part %d: input %lld: expected a column of x from -1 to %lld, found %d",
                        index, (long long)(i % k), (long long)part->x_size - 1, part->x_order[i]);
  return YK_OK;
}

static yk_status check_part(const yk_linear_spec *spec, int index, yk_err *err)
{
  const yk_linear_part *part = &spec->parts[index];
  const yk_weight_view *weight = &part->weight;
  if (part->k.begin < 0 || part->k.end < part->k.begin || part->k.end > weight->k || part->n.begin < 0 ||
      part->n.end < part->n.begin || part->n.end > weight->n)
    return yk_err_set(err, YK_E_INVAL, "linear part %d: slice k [%lld, %lld) n [%lld, %lld) of a weight k %lld n %lld",
                      index, (long long)part->k.begin, (long long)part->k.end, (long long)part->n.begin,
                      (long long)part->n.end, (long long)weight->k, (long long)weight->n);
  if (yk_linear_x_size(part) != yk_linear_x_size(&spec->parts[0]))
    return yk_err_set(err, YK_E_INVAL, "linear part %d: expected %lld inputs as in part 0, found %lld", index,
                      (long long)yk_linear_x_size(&spec->parts[0]), (long long)yk_linear_x_size(part));
  YK_TRY(check_order(part, spec->n_matrices, index, err));
  if (part->use_bias && !weight->bias)
    return yk_err_set(err, YK_E_INVAL, "linear part %d: use_bias: expected a weight with a bias, found none", index);
  return check_matrices(spec, index, err);
}

static yk_status check_slices(const yk_linear_spec *spec, yk_err *err)
{
  const int n = spec->k_slices;
  if (n == 0) return YK_OK;
  if (n != 1 && n != 2 && n != 4 && n != YK_MOST_K_SLICES)
    return yk_err_set(err, YK_E_INVAL, "linear: slices of K: expected 1, 2, 4 or %d, found %d", YK_MOST_K_SLICES, n);
  for (int i = 0; i < spec->n_parts; i++) {
    const yk_linear_part *part = &spec->parts[i];
    if (n > 1 && yk_range_size(part->k) % (n * (int64_t)YK_K_SLICE_UNIT) != 0)
      return yk_err_set(err, YK_E_INVAL, "linear part %d: %d slices of K: expected a multiple of %d inputs, found %lld",
                        i, n, n * YK_K_SLICE_UNIT, (long long)yk_range_size(part->k));
    if (part->x_size > 0 || part->rounding != YK_INPUTS_FLOAT)
      return yk_err_set(err, YK_E_UNSUPPORTED, "linear part %d: slices of K: inputs in another order, or 8-bit inputs",
                        i);
  }
  if (spec->n_matrices > 1 || spec->n_adapters > 0 || spec->is_grouped)
    return yk_err_set(err, YK_E_UNSUPPORTED, "linear: slices of K: expected one matrix without adapters");
  return YK_OK;
}

static yk_status check_activation(const yk_linear_spec *spec, yk_err *err)
{
  const yk_activation *a = &spec->activation;
  if ((int)a->kind < 0 || a->kind >= YK_N_ACTIVATIONS)
    return yk_err_set(err, YK_E_INVAL, "linear: activation: expected 0 to %d, found %d", YK_N_ACTIVATIONS - 1,
                      (int)a->kind);
  if (a->is_gated && (spec->n_parts != 2 || yk_range_size(spec->parts[0].n) != yk_range_size(spec->parts[1].n)))
    return yk_err_set(err, YK_E_INVAL, "linear: a gated activation needs two parts of equal n");
  if (a->is_gated && a->kind == YK_ACTIVATION_NONE)
    return yk_err_set(err, YK_E_INVAL, "linear: a gate needs an activation");
  if (!a->is_gated && a->kind != YK_ACTIVATION_NONE && spec->n_parts != 1)
    return yk_err_set(err, YK_E_INVAL, "linear: an activation without a gate needs one part, found %d", spec->n_parts);
  if (a->kind != YK_ACTIVATION_CLAMPED_SWIGLU) return YK_OK;
  if (!a->is_gated) return yk_err_set(err, YK_E_INVAL, "linear: clamped SwiGLU needs a gate");
  if (!isfinite(a->alpha) || !isfinite(a->limit) || !(a->limit > 0))
    return yk_err_set(err, YK_E_INVAL,
                      "linear: clamped SwiGLU: expected a finite alpha and a limit above 0, found %g, %g",
                      (double)a->alpha, (double)a->limit);
  return YK_OK;
}

yk_status yk_linear_check(const yk_linear_spec *spec, yk_err *err)
{
  if (spec->n_parts < 1 || spec->n_parts > YK_MAX_LINEAR_PARTS)
    return yk_err_set(err, YK_E_INVAL, "linear: expected 1 to %d parts, found %d", YK_MAX_LINEAR_PARTS, spec->n_parts);
  if (spec->n_matrices < 1)
    return yk_err_set(err, YK_E_INVAL, "linear: expected at least 1 matrix, found %d", spec->n_matrices);
  if (spec->n_adapters < 0 || (spec->n_adapters > 0 && (spec->n_matrices > 1 || spec->adapter_rank < 1)))
    return yk_err_set(err, YK_E_INVAL,
                      "linear: expected adapters of rank 1 or more on a layer of one matrix, found %d of rank %d on %d "
                      "matrices",
                      spec->n_adapters, spec->adapter_rank, spec->n_matrices);
  for (int i = 0; i < spec->n_parts; i++) YK_TRY(check_part(spec, i, err));
  YK_TRY(check_slices(spec, err));
  return check_activation(spec, err);
}

yk_status yk_linear_check_args(const yk_linear_args *args, int32_t max_tokens, int32_t n_matrices, yk_err *err)
{
  if (args->n_tokens > max_tokens)
    return yk_err_set(err, YK_E_INVAL, "linear: expected at most %d tokens, found %d", max_tokens, args->n_tokens);
  if (args->matrix < 0 || args->matrix >= n_matrices)
    return yk_err_set(err, YK_E_INVAL, "linear: expected a matrix of 0 to %d, found %d", n_matrices - 1, args->matrix);
  return YK_OK;
}
