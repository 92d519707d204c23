"""When a job saves: the larger what it saves, the more rarely."""

from tuning.trainer.job.save_schedule import SaveSchedule


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def save(schedule: SaveSchedule, clock: Clock, seconds: float) -> None:
    with schedule.saving(is_state_saved=True):
        clock.now += seconds


def test_an_adapter_is_saved_at_each_epoch_and_each_minute() -> None:
    clock = Clock()
    schedule = SaveSchedule("lora", clock)
    save(schedule, clock, 3.0)
    assert schedule.is_due(ends_epoch=True) and not schedule.is_due(ends_epoch=False)
    clock.now += 60
    assert schedule.is_due(ends_epoch=False)


def test_saving_a_whole_model_takes_a_twentieth_of_the_time_at_most() -> None:
    clock = Clock()
    schedule = SaveSchedule("full", clock)
    assert schedule.is_due(ends_epoch=True)
    save(schedule, clock, 30.0)
    clock.now += 599
    assert not schedule.is_due(ends_epoch=True)
    clock.now += 1
    assert schedule.is_due(ends_epoch=True) and schedule.is_due(ends_epoch=False)
