from datetime import timedelta

from window import WAITING, WINDOW, Letters


def letters(service):
    return [(letter.key, letter.payload["orders"]) for letter in service.sent("letters")]


async def test_one_letter_for_a_window(prosody_service):
    async with prosody_service(Letters, topics="orders", state_collections=[WAITING]) as service:
        await service.send("orders", "ann", {"order": 1})
        await service.advance(timedelta(hours=20))
        await service.send("orders", "ann", {"order": 2})
        await service.restart()
        await service.advance(timedelta(hours=3))
        assert letters(service) == []
        await service.advance(timedelta(hours=2))
        assert letters(service) == [("ann", [1, 2])]

        await service.send("orders", "ann", {"order": 3})
        await service.advance(WINDOW + timedelta(seconds=1))
        assert letters(service) == [("ann", [1, 2]), ("ann", [3])]


async def test_an_excised_customer_gets_none(prosody_service):
    async with prosody_service(Letters, topics="orders", state_collections=[WAITING]) as service:
        await service.send("orders", "ann", {"order": 1})
        await service.excise("orders", "ann")
        await service.advance(WINDOW + timedelta(seconds=1))
        assert letters(service) == []


async def test_a_letter_waits_for_the_broker(prosody_service):
    async with prosody_service(Letters, topics="orders", state_collections=[WAITING]) as service:
        await service.send("orders", "ann", {"order": 1})
        await service.idle()
        with service.failing("produce", "letters"):
            await service.advance(WINDOW + timedelta(seconds=1))
            assert letters(service) == []
        await service.advance(timedelta(hours=1))
        assert letters(service) == [("ann", [1])]
