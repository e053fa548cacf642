/* ffn_dense.c - layers with one feed-forward network for every row. */
#include <stdlib.h>

#include "model/ffn_gated.h"

struct yk_sublayer {
  yk_gated_ffn ffn;
};

static yk_gated_ffn_spec spec_of(const yk_rank_source *source, int32_t layer)
{
  return (yk_gated_ffn_spec){layer, YK_ROLE_GATE, YK_ROLE_UP, YK_ROLE_DOWN, yk_rank_ffn_of(source, layer)};
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_gated_ffn_spec spec = spec_of(source, layer);
  *out = (yk_sublayer_bytes){0};
  return yk_gated_ffn_measure(source, &spec, out, err);
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_gated_ffn_spec spec = spec_of(&loader->source, layer);
  yk_sublayer *dense = *out = calloc(1, sizeof *dense);
  if (!dense) return yk_err_set(err, YK_E_NOMEM, "no memory for the feed-forward network of a layer");
  return yk_gated_ffn_load(loader, &spec, &dense->ffn, err);
}

static yk_status forward(const yk_sublayer *dense, yk_sublayer_step *s, yk_err *err)
{
  return yk_gated_ffn_forward(&dense->ffn, s, s->scratch, err);
}

static bool describe(const yk_sublayer *dense, yk_decode_layer *layer, yk_decode_layers_spec *spec)
{
  (void)spec;
  return yk_gated_ffn_describe(&dense->ffn, layer);
}

static void destroy(yk_device *dev, yk_sublayer *dense)
{
  yk_gated_ffn_destroy(dev, &dense->ffn);
  free(dense);
}

const yk_sublayer_kind yk_ffn_dense = {.name = "dense FFN",
                                       .measure = measure,
                                       .load = load,
                                       .forward = forward,
                                       .describe = describe,
                                       .destroy = destroy};
