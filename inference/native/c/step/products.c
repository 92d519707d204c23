/* How products are shared among threads. With few rows, the weights come from memory, and a task should be long enough
 * for sequential reads. With many rows, the weights of a task should fit the core's own cache. */
#include "step/products.h"

#include "rounding.h"
#include "step/delta.h"

enum { PARTS_OF_A_THREAD = 8, PART_BYTES = 1 << 18, SIDE_BY_SIDE = 4 };

static int limited(int count, int low, int high)
{
    count = count > high ? high : count;
    return count < low ? low : count;
}

/* The panels of a range. The kernels multiply SIDE_BY_SIDE panels at once, so a range of that many is preferred to an
 * even distribution. */
static int width_of(const Run *run, const Matrix *matrix, int panels, int blocks)
{
    const int threads = run->model->threads;
    const int ranges = ceil_div(PARTS_OF_A_THREAD * threads, blocks);
    const int fitting = (int)(PART_BYTES / matrix_bytes(matrix->dtype, PANEL, matrix->inputs));
    const int width = limited(panels / ranges, 1, limited(fitting, SIDE_BY_SIDE, TILE_PANELS));
    return width < SIDE_BY_SIDE && panels >= SIDE_BY_SIDE * threads ? SIDE_BY_SIDE : width;
}

Tiling tiling_of(const Run *run, const Matrix *matrix, int rows, int multiple)
{
    const int panels = ceil_div(matrix->outputs, PANEL), blocks = ceil_div(rows, run->block);
    const int width = ceil_div(width_of(run, matrix, panels, blocks), multiple) * multiple;
    return (Tiling){panels, width, rows, blocks, ceil_div(panels, width) * blocks};
}

Tile tile_of(const Run *run, const Tiling *tiling, int task)
{
    const int block = task % tiling->blocks, range = task / tiling->blocks;
    const int first = block * run->block, panel = range * tiling->width;
    return (Tile){
        .block = block,
        .first = first,
        .end = limited(first + run->block, 0, tiling->rows),
        .panel = panel,
        .panels = limited(panel + tiling->width, 0, tiling->panels),
    };
}

GemmTask task_of(const Matrix *matrix, const Inputs *rows, const Tile *tile, float *out, int stride, const void *next)
{
    return (GemmTask){
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

/* The product and the tile of a task of the phase. */
typedef struct Place {
    const Product *product;
    const Tiling *tiling;
    Tile tile;
} Place;

static Place place_of(const Run *run, const Product *product, const Tiling *tiling, int task)
{
    while (task >= tiling->num_tasks) {
        task -= tiling->num_tasks;
        product++;
        tiling++;
    }
    return (Place){product, tiling, tile_of(run, tiling, task)};
}

static void product_task(const Run *run, const Place *place, DeltaOf target, int number, const void *next)
{
    const Product *product = place->product;
    const Tile *tile = &place->tile;
    float *out = product->out + (size_t)tile->first * product->wide + tile->panel * PANEL;
    const Inputs *rows = inputs_for(product->rows, product->matrix);
    const GemmTask task = task_of(product->matrix, rows, tile, out, product->wide, next);
    multiply(&task);
    if (run->step->num_spans)
        deltas_add(run, target, number, &task);
}

void products(const Run *run, Team *team, const Product *product, int count, int rows, Finish *finish, int layer)
{
    Tiling tilings[MOST_PRODUCTS];
    int num_tasks = 0, task;
    for (int i = 0; i < count; i++) {
        tilings[i] = tiling_of(run, product[i].matrix, rows, 1);
        num_tasks += tilings[i].num_tasks;
    }
    if (run->step->num_spans)
        deltas_project(run, team, product->rows, (DeltaOf){product->delta, layer, rows}, count);
    while ((task = team_take(team, num_tasks)) >= 0) {
        const int next = team_after(team, task, num_tasks);
        const Place place = place_of(run, product, tilings, task);
        const DeltaOf target = {place.product->delta, layer, rows};
        const Place after = place_of(run, product, tilings, next < 0 ? task : next);
        const int number = (int)(place.product - product);
        product_task(run, &place, target, number, next < 0 ? NULL : panel_at(after.product->matrix, after.tile.panel));
        const Tile *tile = &place.tile;
        atomic_int *done = &run->done[tile->block];
        if (atomic_fetch_add_explicit(done, 1, memory_order_acq_rel) + 1 == num_tasks / place.tiling->blocks) {
            atomic_store_explicit(done, 0, memory_order_relaxed);
            finish(run, layer, tile->first, tile->end);
        }
    }
    team_meet(team);
}
