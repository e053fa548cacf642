#include "openai/answer_blocks.h"

#include "base/json_write.h"

static void clear(yk_answer_blocks *b, yk_strbuf *buffer)
{
  b->failed |= buffer->failed;
  yk_strbuf_clear(buffer);
}

static void begin_block(const yk_block_writer *writer, yk_openai_answer *answer, yk_block_kind kind)
{
  yk_answer_blocks *b = &answer->blocks;
  b->kind = kind;
  b->is_whole = false;
  b->n_written = 0;
  clear(b, &b->text);
  clear(b, &b->arguments);
  if (answer->request->stream) writer->open(answer);
}

static void write_piece(const yk_block_writer *writer, yk_openai_answer *answer)
{
  yk_answer_blocks *b = &answer->blocks;
  if (b->kind != YK_BLOCK_NONE && b->text.length > b->n_written) writer->piece(answer);
  b->n_written = b->text.length;
}

static void end_block(const yk_block_writer *writer, yk_openai_answer *answer)
{
  yk_answer_blocks *b = &answer->blocks;
  if (b->kind == YK_BLOCK_NONE) return;
  if (answer->request->stream) write_piece(writer, answer);
  writer->close(answer);
  b->kind = YK_BLOCK_NONE;
  b->index++;
}

static void begin_call(const yk_block_writer *writer, yk_answer_choice *choice, const yk_answer_event *event)
{
  yk_answer_blocks *b = &choice->answer->blocks;
  end_block(writer, choice->answer);
  clear(b, &b->name);
  clear(b, &b->call_id);
  yk_json_append_escaped(&b->name, event->text, event->n_bytes);
  yk_answer_append_call_id(choice, event, &b->call_id);
  begin_block(writer, choice->answer, YK_BLOCK_CALL);
}

static void add_text(const yk_block_writer *writer, yk_openai_answer *answer, yk_block_kind kind,
                     const yk_answer_event *event)
{
  yk_answer_blocks *b = &answer->blocks;
  if (event->n_bytes == 0) return;
  if (b->kind != kind) {
    end_block(writer, answer);
    begin_block(writer, answer, kind);
  }
  yk_json_append_escaped(&b->text, event->text, event->n_bytes);
}

void yk_answer_blocks_take(const yk_block_writer *writer, yk_answer_choice *choice, const yk_answer_event *event)
{
  yk_openai_answer *answer = choice->answer;
  yk_answer_blocks *b = &answer->blocks;
  switch (event->kind) {
  case YK_EVENT_CONTENT: add_text(writer, answer, YK_BLOCK_TEXT, event); break;
  case YK_EVENT_REASONING:
    if (answer->request->include_reasoning) add_text(writer, answer, YK_BLOCK_REASONING, event);
    break;
  case YK_EVENT_CALL: begin_call(writer, choice, event); break;
  case YK_EVENT_ARGUMENTS:
    yk_json_append_escaped(&b->text, event->text, event->n_bytes);
    yk_strbuf_append(&b->arguments, event->text, event->n_bytes);
    break;
  case YK_EVENT_CALL_END:
    b->is_whole = event->is_whole;
    end_block(writer, answer);
    break;
  }
}

void yk_answer_blocks_write(const yk_block_writer *writer, yk_openai_answer *answer, yk_strbuf *out)
{
  yk_answer_blocks *b = &answer->blocks;
  write_piece(writer, answer);
  yk_strbuf_append(out, b->events.data, b->events.length);
  clear(b, &b->events);
}

void yk_answer_blocks_end(const yk_block_writer *writer, yk_openai_answer *answer)
{
  yk_answer_blocks *b = &answer->blocks;
  end_block(writer, answer);
  if (b->index > 0 || answer->request->is_empty) return;
  begin_block(writer, answer, YK_BLOCK_TEXT);
  end_block(writer, answer);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

bool yk_answer_blocks_failed(const yk_answer_blocks *b)
{
  return b->failed || b->name.failed || b->call_id.failed || b->text.failed || b->arguments.failed ||
         b->events.failed || b->items.failed;
}

void yk_answer_blocks_free(yk_answer_blocks *b)
{
  yk_strbuf *const buffers[] = {&b->name, &b->call_id, &b->text, &b->arguments, &b->events, &b->items};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) yk_strbuf_free(buffers[i]);
}
