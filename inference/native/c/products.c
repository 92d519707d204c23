/* How products are shared out. Few rows: the weights come from memory, and a part should be long enough to be
 * read in one go. Many: a part's weights should stay in the core's own cache. */
#include "products.h"

enum { PARTS_OF_A_THREAD = 8, PART_BYTES = 1 << 18, SIDE_BY_SIDE = 4 };

static int parts_of(int count, int size)
{
    return (count + size - 1) / size;
}

static int limited(int count, int low, int high)
{
    count = count > high ? high : count;
    return count < low ? low : count;
}

/* Panels of a range. Several are multiplied side by side, so some more than would be fair are better. */
static int width_of(const Run *run, const Matrix *matrix, int panels, int blocks)
{
    const int threads = run->model->threads;
    const int ranges = parts_of(PARTS_OF_A_THREAD * threads, blocks);
    const int fitting = (int)(PART_BYTES / matrix_bytes(matrix->kind, PANEL, matrix->inputs));
    const int width = limited(panels / ranges, 1, limited(fitting, SIDE_BY_SIDE, TILE_PANELS));
    return width < SIDE_BY_SIDE && panels >= SIDE_BY_SIDE * threads ? SIDE_BY_SIDE : width;
}

Cut cut_of(const Run *run, const Matrix *matrix, int rows, int multiple)
{
    const int panels = parts_of(matrix->outputs, PANEL), blocks = parts_of(rows, run->block);
    const int width = parts_of(width_of(run, matrix, panels, blocks), multiple) * multiple;
    return (Cut){panels, width, rows, blocks, parts_of(panels, width) * blocks};
}

Tile tile_of(const Run *run, const Cut *cut, int part)
{
    const int block = part % cut->blocks, range = part / cut->blocks;
    const int first = block * run->block, panel = range * cut->width;
    return (Tile){
        .block = block,
        .first = first,
        .end = limited(first + run->block, 0, cut->rows),
        .panel = panel,
        .panels = limited(panel + cut->width, 0, cut->panels),
    };
}

Part part_of(const Matrix *matrix, const Inputs *rows, const Tile *tile, float *out, int stride, const void *next)
{
    return (Part){
        .weight = matrix,
        .rows = rows,
        .first = tile->first,
        .end = tile->end,
        .panel = tile->panel,
        .panels = tile->panels,
        .out = out,
        .stride = stride,
        .next = next,
    };
}

/* Some products, and where in them a part of the phase is. */
typedef struct Place {
    const Product *product;
    const Cut *cut;
    Tile tile;
} Place;

static Place place_of(const Run *run, const Product *product, const Cut *cut, int part)
{
    while (part >= cut->parts) {
        part -= cut->parts;
        product++;
        cut++;
    }
    return (Place){product, cut, tile_of(run, cut, part)};
}

static void product_part(const Place *place, const void *next)
{
    const Product *product = place->product;
    const Tile *tile = &place->tile;
    float *out = product->out + (size_t)tile->first * product->wide + tile->panel * PANEL;
    const Inputs *rows = &product->rows->of[product->matrix->kind];
    const Part part = part_of(product->matrix, rows, tile, out, product->wide, next);
    multiply(&part);
}

void products(const Run *run, Team *team, const Product *product, int count, int rows, Finish *finish, int layer)
{
    Cut cuts[MOST_PRODUCTS];
    int parts = 0, part;
    for (int i = 0; i < count; i++) {
        cuts[i] = cut_of(run, product[i].matrix, rows, 1);
        parts += cuts[i].parts;
    }
    while ((part = team_take(team, parts)) >= 0) {
        const int next = team_after(team, part, parts);
        const Place place = place_of(run, product, cuts, part);
        const Place after = place_of(run, product, cuts, next < 0 ? part : next);
        product_part(&place, next < 0 ? NULL : panel_at(after.product->matrix, after.tile.panel));
        const Tile *tile = &place.tile;
        atomic_int *done = &run->done[tile->block];
        if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 == parts / place.cut->blocks) {
            atomic_store_explicit(done, 0, memory_order_relaxed);
            finish(run, layer, tile->first, tile->end);
        }
    }
    team_meet(team);
}
