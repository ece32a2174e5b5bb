from datetime import timedelta

from prosody.request import Failure, HandlerError, Success

from orders import PATIENCE, STATUS, Orders

OPTIONS = {"topics": "orders", "subsystem": "orders", "state_collections": [STATUS]}


async def ask(service, step, key="order-1"):
    """A shop's request."""
    answers = await service.client.request(
        "orders", key, {"step": step}, subsystems=["orders"], timeout=5
    )
    return answers["orders"]


async def test_from_placed_to_shipped(prosody_service):
    async with prosody_service(Orders(), **OPTIONS) as service:
        desk = await service.client.state("orders", STATUS)
        for step in ("placed", "paid", "shipped"):
            assert await ask(service, step) == Success({"status": step})
        assert await desk.get("order-1") == "shipped"
        await service.advance(PATIENCE + timedelta(seconds=1))
        assert await service.state(STATUS).get("order-1") == "shipped"


async def test_a_wrong_step_is_refused(prosody_service):
    async with prosody_service(Orders(), **OPTIONS) as service:
        assert await ask(service, "shipped") == Failure(
            HandlerError("PermanentError: order-1 is unknown: it cannot be shipped")
        )
        await service.idle()
        assert await service.state(STATUS).get("order-1") is None


async def test_an_unpaid_order_lapses(prosody_service):
    async with prosody_service(Orders(), **OPTIONS) as service:
        await ask(service, "placed")
        await service.advance(PATIENCE + timedelta(seconds=1))
        assert await service.state(STATUS).get("order-1") == "lapsed"
        answer = await ask(service, "paid")
        assert answer == Failure(
            HandlerError("PermanentError: order-1 is lapsed: it cannot be paid")
        )


async def test_an_excised_order_is_unknown(prosody_service):
    async with prosody_service(Orders(), **OPTIONS) as service:
        await ask(service, "placed")
        await service.excise("orders", "order-1")
        await service.advance(PATIENCE + timedelta(seconds=1))
        assert await service.state(STATUS).get("order-1") is None
        assert await ask(service, "placed") == Success({"status": "placed"})
