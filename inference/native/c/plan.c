/* Pieces and items. Few queries that see much are shared out by spans where there are not enough of them. */
#include "plan.h"

enum { MOST_ROWS = 128, FEW_TOKENS = 8, ITEMS_OF_A_THREAD = 8 };

static int parts_of(int count, int size)
{
    return (count + size - 1) / size;
}

static int tokens_of_a_piece(const Model *model)
{
    const int shared = model->heads / model->groups;
    return shared < MOST_ROWS ? MOST_ROWS / shared : 1;
}

static int is_split(const Piece *piece, const Model *model, int pieces)
{
    return piece->end - piece->first <= FEW_TOKENS && pieces * model->groups < ITEMS_OF_A_THREAD * model->threads;
}

/* Each piece in turn, from the last token to the first: what sees most is begun first. */
#define EACH_PIECE(piece, model, step)                                                                             \
    for (int row = (step)->rows - 1, size = tokens_of_a_piece(model); row >= 0; row--)                             \
        for (int end = (int)(step)->starts[row + 1]; end > (step)->starts[row]; end = piece.first)                 \
            if (piece = piece_before(step, row, end, size), 1)

static Piece piece_before(const Step *step, int row, int end, int size)
{
    const int start = (int)step->starts[row], tokens = end - start;
    const int first = start + (tokens - 1) / size * size;
    const int held = (int)(step->lengths[row] - (step->starts[row + 1] - start));
    return (Piece){.row = row, .first = first, .end = end, .position = held + first - start};
}

Plan plan_counted(const Model *model, const Step *step)
{
    Plan plan = {.rows = tokens_of_a_piece(model) * (model->heads / model->groups)};
    Piece piece;
    EACH_PIECE(piece, model, step) plan.pieces++;
    EACH_PIECE(piece, model, step) {
        if (is_split(&piece, model, plan.pieces))
            plan.split += parts_of(piece_length(&piece), SPAN);
        else
            plan.items++;
    }
    plan.items += plan.split;
    return plan;
}

static void add_spans(Plan *plan, int number, int first)
{
    Piece *piece = &plan->piece[number];
    piece->item = first;
    piece->items = parts_of(piece_length(piece), SPAN);
    for (int span = 0; span < piece->items; span++)
        plan->item[first + span] = (Item){number, span};
}

void plan_fill(Plan *plan, const Model *model, const Step *step)
{
    int number = 0, spans = 0, whole = plan->split;
    Piece piece;
    EACH_PIECE(piece, model, step) {
        plan->piece[number] = piece;
        if (is_split(&piece, model, plan->pieces)) {
            add_spans(plan, number, spans);
            spans += plan->piece[number].items;
        } else {
            plan->piece[number].item = whole;
            plan->piece[number].items = 1;
            plan->item[whole++] = (Item){number, ALL};
        }
        number++;
    }
}
