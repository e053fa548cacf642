#include "model/invariance.h"

#include "base/checked.h"
#include "model/repack.h"

/* Slices of a column-parallel layer: enough for the thread blocks of a GPU, for few rows; more would only add work. A
 * layer with MANY_OUTPUTS has enough columns for all thread blocks. */
enum { COLUMN_SLICES = 4, MANY_OUTPUTS = 9216 };

/* Why a model, or an option, has no batch-invariant form; NULL: it has one. */
static const char *obstacle_of(const yk_model_config *c, const yk_model_limits *limits, int n_ranks)
{
  if (c->experts.n_experts > 0) return "mixtures of experts";
  if (c->latent.kv_rank > 0) return "latent attention";
  for (int32_t i = 0; i < c->n_layers; i++)
    if (c->delta.layers[i] || c->mamba.layers[i]) return "layers with recurrent states";
  if (c->layer_input_size > 0) return "embeddings of layers";
  if (c->row_norms && n_ranks > 1) return "norms of whole rows of q and k on several ranks";
  if (limits->n_adapters > 0) return "adapters";
  if (limits->kv_format != YK_KV_ACT) return "a KV cache in 8 bits (kv_cache_dtype can be that of activations)";
  if (limits->lm_head_as_int8) return "lm_head int8";
  return limits->rounding != YK_ROUNDING_NONE ? "inputs in 8 bits (activations dtype keeps them)" : NULL;
}

/* The most ranks among which K can be divided in every row-parallel layer. */
static int most_ranks(const yk_model_config *c)
{
  int most = yk_linear_k_slices(c->ffn_size);
  most = (int)yk_min_i64(most, yk_linear_k_slices((int64_t)c->n_heads * c->head_dim));
  while (c->n_heads % most != 0) most /= 2;
  return most;
}

static const char *name_of_counts(int most)
{
  switch (most) {
  case 1: return "1 rank";
  case 2: return "1 or 2 ranks";
  case 4: return "1, 2 or 4 ranks";
  default: return "1, 2, 4 or 8 ranks";
  }
}

yk_status yk_invariance_check(const yk_model_config *c, const yk_model_limits *limits, int n_ranks, yk_err *err)
{
  if (!limits->batch_invariant) return YK_OK;
  const char *obstacle = obstacle_of(c, limits, n_ranks);
  if (obstacle) return yk_err_set(err, YK_E_UNSUPPORTED, "batch_invariant: not with %s", obstacle);
  const int most = most_ranks(c);
  if (n_ranks <= most && (n_ranks & (n_ranks - 1)) == 0) return YK_OK;
  return yk_err_set(
      err, YK_E_UNSUPPORTED,
      "batch_invariant: a layer of this model (%d heads of %d, %lld channels) can be split over %s alone, found %d",
      c->n_heads, c->head_dim, (long long)c->ffn_size, name_of_counts(most), n_ranks);
}

static const char *tensor_of(const yk_linear_part *part)
{
  return part->weight.tensor ? part->weight.tensor : "a weight";
}

/* The reasons that do not depend on the slice that the rank has. */
static yk_status check_weight(const yk_linear_part *part, yk_err *err)
{
  if (part->weight.act_order)
    return yk_err_set(err, YK_E_UNSUPPORTED, "batch_invariant: not with act order: %s", tensor_of(part));
  const yk_inputs_kind inputs = part->weight.inputs.kind;
  if (inputs != YK_INPUTS_FLOAT && inputs != YK_INPUTS_FP8 && inputs != YK_INPUTS_INT8 && !part->as_16_bits)
    return yk_err_set(err, YK_E_UNSUPPORTED, "batch_invariant: not with quantised inputs: %s", tensor_of(part));
  return YK_OK;
}

static yk_status check_part(const yk_rank_source *source, const yk_linear_spec *spec, int i, yk_err *err)
{
  const yk_linear_part *part = &spec->parts[i];
  YK_TRY(check_weight(part, err));
  if (!yk_repack_divides(&source->dev, spec, i))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "batch_invariant: not with weights in %s on the %s device: %s; supported: weights f16, or CPU "
                      "ranks",
                      yk_weight_traits_of(part->weight.format)->name, source->dev.abilities->name, tensor_of(part));
  return YK_OK;
}

static yk_status set_slices(const yk_rank_source *source, yk_linear_spec *spec, int n_slices, yk_err *err)
{
  spec->k_slices = n_slices;
  for (int i = 0; i < spec->n_parts; i++) YK_TRY(check_part(source, spec, i, err));
  return YK_OK;
}

yk_status yk_invariance_column(const yk_rank_source *source, yk_linear_spec *spec, yk_err *err)
{
  if (!source->limits->batch_invariant) return YK_OK;
  int64_t n_outputs = 0; /* of the largest weight, on all ranks */
  for (int i = 0; i < spec->n_parts; i++) n_outputs = yk_max_i64(n_outputs, spec->parts[i].weight.n);
  const int most = n_outputs < MANY_OUTPUTS ? COLUMN_SLICES : 1;
  return set_slices(source, spec, (int)yk_min_i64(most, yk_linear_k_slices(yk_range_size(spec->parts[0].k))), err);
}

yk_status yk_invariance_head(const yk_rank_source *source, yk_linear_spec *spec, yk_err *err)
{
  if (!source->limits->batch_invariant) return YK_OK;
  return set_slices(source, spec, 1, err); /* a large vocabulary has enough columns for all threads */
}

yk_status yk_invariance_row(const yk_rank_source *source, yk_linear_spec *spec, yk_err *err)
{
  const yk_linear_part *part = &spec->parts[0];
  const int64_t k = part->weight.k, n_ranks = source->share.n_ranks;
  if (!source->limits->batch_invariant) return YK_OK;
  YK_TRY(check_weight(part, err)); /* before the slice: act order gives ranks other inputs than equal ranges */
  const int slices = yk_linear_k_slices(k);
  if (slices % n_ranks != 0 || part->k.begin != k / n_ranks * source->share.rank ||
      yk_range_size(part->k) != k / n_ranks)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "batch_invariant: %s: expected an equal part of %lld inputs in %d slice%s on each of %d ranks, "
                      "found inputs %lld to %lld on rank %d",
                      tensor_of(part), (long long)k, slices, slices == 1 ? "" : "s", (int)n_ranks,
                      (long long)part->k.begin, (long long)part->k.end, source->share.rank);
  if (n_ranks > 1 && part->use_bias)
    return yk_err_set(err, YK_E_UNSUPPORTED, "batch_invariant: not with a bias of %s on several ranks",
                      tensor_of(part));
  spec->f32_output = n_ranks > 1;
  return set_slices(source, spec, slices / (int)n_ranks, err);
}

yk_status yk_invariance_check_comm(const yk_rank_source *source, yk_comm *comm, yk_err *err)
{
  if (!yk_invariance_has_tree(source)) return YK_OK;
  const yk_status status =
      comm->ops->all_reduce_tree
          ? comm->ops->all_reduce_tree(comm, NULL, 0, err)
          : yk_err_set(err, YK_E_UNSUPPORTED, "ranks over %s have no all-reduce in a tree", comm->ops->name);
  if (status != YK_OK) yk_err_prefix(err, "batch_invariant");
  return status;
}
